// SPDX-License-Identifier: GPL-2.0-only
// Makes the page that the address asks for: #{"kind": ..., "size": ..., "seed": ...}, one of five kinds of site. What can
// be clicked carries the metric that it is measured by.
"use strict";

const asked = JSON.parse(decodeURIComponent(location.hash.slice(1)));
const main = document.getElementById("main");
const query = document.getElementById("query");
const WORDS = ("time year people way day man thing woman life child world school state family student group country " +
  "problem hand part place case week company system program question work government number night point home water room " +
  "mother area money story fact month lot right study book eye job word business issue side kind head house service " +
  "friend father power hour game line end member law car city community name president team minute idea body back").split(" ");

let state = asked.seed >>> 0;
function random() { // mulberry32
  state = (state + 0x6d2b79f5) >>> 0;
  let t = Math.imul(state ^ (state >>> 15), state | 1);
  t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
}
const upto = (n) => Math.floor(random() * n);
const words = (n) => Array.from({ length: n }, () => WORDS[upto(WORDS.length)]).join(" ");
const hue = () => `hsl(${upto(360)}, 65%, 48%)`;

function make(tag, parent, text, properties) {
  const one = Object.assign(document.createElement(tag), properties);
  if (text !== undefined) one.textContent = text;
  if (parent) parent.append(one);
  return one;
}

function clickable(one, metric, then) {
  one.dataset.metric = metric;
  one.addEventListener("click", then);
  return one;
}

const button = (text, metric, then, parent) =>
  clickable(make("button", parent || document.getElementById("buttons"), text), metric, then);

function typed(then) { query.addEventListener("input", () => then(query.value.trim().slice(-3))); }

function picture(parent, width, height) {
  const canvas = make("canvas", parent, undefined, { width, height });
  const pen = canvas.getContext("2d");
  const sky = pen.createLinearGradient(0, 0, width, height);
  sky.addColorStop(0, hue());
  sky.addColorStop(1, hue());
  pen.fillStyle = sky;
  pen.fillRect(0, 0, width, height);
  for (let i = 0; i < 40; i++) {
    pen.fillStyle = hue();
    pen.globalAlpha = 0.3;
    pen.beginPath();
    pen.arc(upto(width), upto(height), 5 + upto(60), 0, 7);
    pen.fill();
  }
  return canvas;
}

// Sorts the children of a parent by a key, the other way round the next time.
function sorter(parent, key) {
  let turn = 1;
  return () => {
    turn = -turn;
    const keyed = [...parent.children].map((one) => [key(one), one]);
    keyed.sort(([a], [b]) => turn * (typeof a === "number" ? a - b : a.localeCompare(b)));
    parent.append(...keyed.map(([, one]) => one));
  };
}

function grid(parent, rows, columns, className) {
  const table = make("table", parent, undefined, { className });
  const head = make("tr", make("thead", table)), body = make("tbody", table);
  for (let c = 0; c < columns; c++) {
    const key = (row) => c % 2 ? Number(row.children[c].textContent) : row.children[c].textContent;
    clickable(make("th", head, words(1)), "sort_ms", sorter(body, key));
  }
  for (let r = 0; r < rows; r++) {
    const row = make("tr", body);
    for (let c = 0; c < columns; c++) {
      const cell = make("td", row, c % 2 ? String(upto(1e6)) : c === 2 ? undefined : words(1 + upto(3)));
      if (c === 2) make("span", cell, words(1), { className: "badge" }).style.background = hue();
    }
  }
  return body;
}

function article(size) {
  const page = make("article", main);
  const sections = [];
  for (let i = 0; i < size; i++) {
    const section = make("section", page);
    sections.push(section);
    clickable(make("h2", section, words(4)), "click_ms", () => section.classList.toggle("folded"));
    if (i % 3 === 0) picture(section, 300 + upto(200), 180 + upto(160));
    for (let p = 0; p < 2 + upto(4); p++) make("p", section, words(50 + upto(90)));
  }
  make("h2", page, "references");
  const rows = grid(page, size * 3, 4, "compact");
  button("theme", "click_ms", () => document.body.classList.toggle("dark"));
  button("fold", "click_ms", () => sections.forEach((one) => one.classList.toggle("folded")));
  button("sort", "sort_ms", sorter(rows, (row) => Number(row.children[1].textContent)));
  typed((text) => page.querySelectorAll("p").forEach((p) => p.classList.toggle("hit", text !== "" && p.textContent.includes(text))));
}

function table(size) {
  const rows = grid(main, size, 8, "");
  button("compact", "click_ms", () => rows.parentElement.classList.toggle("compact"));
  button("every third", "click_ms", () => [...rows.children].forEach((row, i) => i % 3 || row.classList.toggle("picked")));
  button("sort", "sort_ms", sorter(rows, (row) => row.children[0].textContent));
  [...rows.children].forEach((row) => clickable(row, "click_ms", () => row.classList.toggle("picked")));
  typed((text) => [...rows.children].forEach((row) => { row.hidden = !row.textContent.includes(text); }));
}

function feed(size) {
  const list = make("div", main), end = make("div", main, "more");
  const names = Array.from({ length: 2000 }, () => words(2));
  const hint = make("div", document.getElementById("bar"));
  function grow(count) {
    for (let i = 0; i < count && list.children.length < 20 * size; i++) {
      const card = make("div", list, undefined, { className: "card" });
      make("h3", card, words(3));
      make("p", card, words(20 + upto(50)));
      if (upto(2)) picture(card, 560, 200 + upto(200));
      card.dataset.likes = String(upto(5000));
      button("like", "click_ms", () => card.classList.toggle("liked"), card);
      button("answers", "click_ms", () => {
        const shown = card.querySelector(".answers");
        if (shown) return shown.remove();
        const answers = make("div", card, undefined, { className: "answers" });
        for (let a = 0; a < 5 + upto(25); a++) make("p", answers, words(10 + upto(30)));
      }, card);
    }
  }
  grow(size);
  new IntersectionObserver((seen) => seen.some((one) => one.isIntersecting) && grow(12), { rootMargin: "400px" }).observe(end);
  button("top", "sort_ms", sorter(list, (card) => Number(card.dataset.likes)));
  typed((text) => { hint.textContent = text && names.filter((name) => name.includes(text)).sort().slice(0, 6).join(", "); });
}

function mail(size) {
  const page = make("div", main, undefined, { className: "mail" });
  const list = make("div", page, undefined, { className: "pane" });
  const pane = make("div", page, undefined, { className: "pane" });
  function open(letter) {
    list.querySelector(".open")?.classList.remove("open");
    letter.classList.add("open");
    pane.replaceChildren();
    make("h2", pane, letter.dataset.subject);
    for (let p = 0; p < 10 + upto(50); p++) make("p", pane, words(20 + upto(70)), { className: p % 4 === 3 ? "quote" : "" });
    grid(pane, 3 + upto(20), 4, "compact");
    if (upto(3) === 0) picture(pane, 500, 300);
    pane.scrollTop = 0;
  }
  for (let i = 0; i < size; i++) {
    const letter = make("div", list, undefined, { className: "letter" });
    letter.dataset.subject = words(4 + upto(5));
    letter.dataset.bytes = String(upto(1e6));
    make("b", letter, words(2));
    make("div", letter, letter.dataset.subject);
    clickable(letter, "click_ms", () => open(letter));
  }
  open(list.firstChild);
  button("by sender", "sort_ms", sorter(list, (letter) => letter.firstChild.textContent));
  button("by size", "sort_ms", sorter(list, (letter) => Number(letter.dataset.bytes)));
  typed((text) => [...list.children].forEach((letter) => { letter.hidden = !letter.textContent.includes(text); }));
}

const SVG = "http://www.w3.org/2000/svg";

function dashboard(size) {
  const charts = make("div", main, undefined, { className: "charts" });
  let points = 200, only = "";
  const drawn = Array.from({ length: size }, (_, i) => {
    const name = words(1);
    const values = Array.from({ length: 1600 }, () => random());
    if (i % 2) {
      const svg = document.createElementNS(SVG, "svg");
      svg.setAttribute("viewBox", "0 0 400 190");
      svg.append(...[0, 1, 2].map(() => document.createElementNS(SVG, "path")));
      charts.append(svg);
      [...svg.children].forEach((path) => { path.style.cssText = `fill: none; stroke: ${hue()}; stroke-width: 1.5`; });
      return { name, values, svg };
    }
    return { name, values, pen: make("canvas", charts, undefined, { width: 400, height: 190 }).getContext("2d"), color: hue() };
  });
  const at = (values, line, i) => 95 + 85 * Math.sin(i / 19 + line) * values[(i + 37 * line) % values.length];
  function draw({ name, values, svg, pen, color }) {
    const faint = only && !name.includes(only);
    if (svg) {
      [...svg.children].forEach((path, line) => path.setAttribute("d", "M" + Array.from({ length: points }, (_, i) =>
        `${(400 * i / points).toFixed(1)} ${at(values, line, i).toFixed(1)}`).join("L")));
      svg.style.opacity = faint ? 0.25 : 1;
      return;
    }
    pen.clearRect(0, 0, 400, 190);
    pen.globalAlpha = faint ? 0.25 : 1;
    pen.fillStyle = color;
    for (let i = 0; i < points; i++) pen.fillRect(400 * i / points, at(values, 0, i), Math.max(1, 380 / points), 190);
  }
  const redraw = () => drawn.forEach(draw);
  redraw();
  setInterval(() => { // it is live
    if (document.hidden) return;
    drawn.forEach(({ values }) => values.push(values.shift()));
    drawn.filter((_, i) => i % 4 === 0).forEach(draw);
  }, 1000);
  for (const range of [100, 400, 1600]) button(`${range} h`, "click_ms", () => { points = range; redraw(); });
  const rows = grid(main, size * 12, 6, "compact");
  button("sort", "sort_ms", sorter(rows, (row) => Number(row.children[1].textContent)));
  typed((text) => { only = text; redraw(); });
}

document.title = document.getElementById("title").textContent = asked.kind;
({ article, table, feed, mail, dashboard })[asked.kind](asked.size);
