"use strict";

const folds = [...document.querySelectorAll("details.fold")];
const contents = document.querySelector("nav.contents > details");
const links = new Map([...document.querySelectorAll("nav.contents a")]
  .map((link) => [link.getAttribute("href").slice(1), link]));

/* A link into a folded section opens it; browsers that do so by themselves are not disturbed. */
function reveal(name) {
  const target = document.getElementById(name);
  const fold = target === null ? null : target.closest("details.fold");
  if (fold === null || fold.open) return;
  fold.open = true;
  target.scrollIntoView();
}
window.addEventListener("hashchange", () => reveal(location.hash.slice(1)));
reveal(location.hash.slice(1));

/* The contents say where the reader is: the last section that begins above the middle. */
const here = document.getElementById("here");
let current = null;
function follow() {
  const middle = window.innerHeight / 2;
  let last = null;
  for (const name of links.keys()) {
    const section = document.getElementById(name);
    const part = section.closest("details.fold") || section;
    if (last === null || part.getBoundingClientRect().top < middle) last = name;
  }
  if (last === current) return;
  if (current !== null) links.get(current).removeAttribute("aria-current");
  current = last;
  const link = links.get(current);
  link.setAttribute("aria-current", "location");
  here.textContent = link.textContent;
}
let waiting = false;
window.addEventListener("scroll", () => {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; follow(); });
}, { passive: true });
window.addEventListener("resize", follow);
follow();

/* Beside the text there is room for the contents; above it they fold and stay at the top. */
const narrow = window.matchMedia("(max-width: 67.99rem)");
function place() {
  contents.open = !narrow.matches;
  contents.parentElement.classList.toggle("bar", narrow.matches);
}
narrow.addEventListener("change", place);
place();
contents.addEventListener("click", (event) => {
  if (narrow.matches && event.target.closest("a")) contents.open = false;
});

/* One button opens all sections, and then folds them. */
const all = document.getElementById("open-all");
all.hidden = false;
all.addEventListener("click", () => {
  const open = folds.some((fold) => !fold.open);
  for (const fold of folds) fold.open = open;
});
function nameButton() {
  all.textContent = folds.some((fold) => !fold.open) ? "Open all sections" : "Fold all sections";
}

/* A drawing that is wider than the window shows its middle, where the root is. */
function centre() {
  for (const drawing of document.querySelectorAll(".circuit")) {
    drawing.scrollLeft = (drawing.scrollWidth - drawing.clientWidth) / 2;
  }
}
for (const fold of folds) fold.addEventListener("toggle", () => { nameButton(); centre(); follow(); });

/* On paper every section and every table is open, and afterwards as it was. */
let closed = [];
window.addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("main details:not([open])")];
  for (const details of closed) details.open = true;
});
window.addEventListener("afterprint", () => {
  for (const details of closed) details.open = false;
});
