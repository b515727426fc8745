"use strict";
// Draws the figures for the width and the theme of the page, and serves the downloads.
(() => {
  const page = JSON.parse(document.getElementById("payload").textContent);
  const narrow = matchMedia("(max-width: 640px)");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const paper = matchMedia("print");

  const theme = () => {
    if (paper.matches) return "light";
    return document.documentElement.dataset.theme || (dark.matches ? "dark" : "light");
  };

  const element = (key) => document.getElementById(`figure-${key}`);

  // One at a time: Plotly refuses a second picture while it makes the first.
  let saving = Promise.resolve();
  const saveImage = (key, format) => {
    const save = () =>
      Plotly.downloadImage(element(key), {
        format,
        filename: key,
        width: 1100,
        height: element(key).layout.height,
        scale: format === "png" ? 2 : 1,
      });
    saving = saving.then(save, save);
  };

  const saveText = (key, filename) => {
    const type = filename.endsWith(".csv") ? "text/csv" : "text/plain";
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([page.texts[key]], { type: `${type};charset=utf-8` }));
    link.download = filename;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };

  const config = (key) => ({
    responsive: true,
    displaylogo: false,
    displayModeBar: narrow.matches ? false : "hover",
    modeBarButtons: [
      ["zoom2d", "pan2d", "resetScale2d"],
      ["png", "svg"].map((format) => ({
        name: format,
        title: `Download as ${format.toUpperCase()}`,
        icon: Plotly.Icons.camera,
        click: () => saveImage(key, format),
      })),
    ],
  });

  const draw = () => {
    for (const { key, data, wide, narrow: tall } of page.figures) {
      const layout = { ...(narrow.matches ? tall : wide), template: page.templates[theme()] };
      // Plotly writes into what it is given; the next drawing starts from the same figure.
      Plotly.react(element(key), structuredClone(data), structuredClone(layout), config(key));
    }
  };

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-save]");
    if (!button) return;
    const { save, of, filename } = button.dataset;
    if (save === "text") saveText(of, filename);
    else saveImage(of, save);
  });
  for (const query of [narrow, dark, paper]) query.addEventListener("change", draw);
  draw();
  document.documentElement.dataset.drawn = page.figures.length;
})();
