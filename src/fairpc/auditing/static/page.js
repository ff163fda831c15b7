"use strict";

const folds = [...document.querySelectorAll("details.fold")];
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
  links.get(current).setAttribute("aria-current", "location");
}
let waiting = false;
window.addEventListener("scroll", () => {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; follow(); });
}, { passive: true });
window.addEventListener("resize", follow);
follow();

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
for (const fold of folds) fold.addEventListener("toggle", () => { nameButton(); follow(); });

/* On paper every section and every table is open, and afterwards as it was. */
let closed = [];
window.addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("main details:not([open])")];
  for (const details of closed) details.open = true;
});
window.addEventListener("afterprint", () => {
  for (const details of closed) details.open = false;
});
