"use strict";
// ?theme=dark or ?theme=light overrides what the system asks for. In the head, so nothing flashes.
const chosenTheme = new URLSearchParams(location.search).get("theme");
if (chosenTheme === "dark" || chosenTheme === "light") {
  document.documentElement.dataset.theme = chosenTheme;
}
