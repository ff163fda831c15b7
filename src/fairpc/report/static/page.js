"use strict";

/* On paper every table is shown. */
window.addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details")) details.open = true;
});

/* A drawing that is wider than the window shows its middle, where the root is. */
for (const drawing of document.querySelectorAll(".circuit")) {
  drawing.scrollLeft = (drawing.scrollWidth - drawing.clientWidth) / 2;
}
