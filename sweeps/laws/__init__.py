"""Laws of the loss over parameters, tokens and recipe. One form a file; `registry` names them."""
