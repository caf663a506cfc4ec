// SPDX-License-Identifier: GPL-2.0-only
// What the person at this page feels, as samples [metric, value, when]: from an event's own time stamp, which is when the
// browser got it, until the paint that follows; and the intervals between frames while anything scrolls. `take` hands
// them over. Times are of performance.now(), in ms.
"use strict";

const measure = { error: null, samples: [], seen: null, key: null, scrolled: 0, rolling: false, last: 0 };

// After the next frame has been made: a task queued in its callback runs when style, layout and paint are done.
function painted(then) {
  requestAnimationFrame(() => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => then(performance.now());
    channel.port2.postMessage(0);
  });
}

function sample(metric, began) {
  painted((now) => measure.samples.push([metric, now - began, now]));
}

addEventListener("error", (event) => { measure.error = event.message; });

addEventListener("click", (event) => {
  const button = event.target.closest("[data-metric]");
  if (button) sample(button.dataset.metric, event.timeStamp);
}, true);

addEventListener("keydown", (event) => { measure.key = event.timeStamp; }, true);

addEventListener("input", () => {
  if (measure.key !== null) sample("input_ms", measure.key);
  measure.key = null;
}, true);

document.addEventListener("visibilitychange", () => {
  measure.last = 0; // no frames are made of a hidden page: what lies between is no interval
  if (!document.hidden) painted((now) => { measure.seen = now; });
});

function frame() {
  const now = performance.now();
  if (measure.last) measure.samples.push(["scroll_frame_ms", now - measure.last, now]);
  measure.last = now;
  measure.rolling = now - measure.scrolled < 120;
  if (measure.rolling) requestAnimationFrame(frame);
}

addEventListener("scroll", () => {
  measure.scrolled = performance.now();
  if (measure.rolling) return;
  measure.rolling = true;
  measure.last = 0;
  requestAnimationFrame(frame);
}, true);

// Everything measured since the last call, and when this tab was last shown (null: not since).
function take() {
  const seen = measure.seen;
  measure.seen = null;
  return { error: measure.error, samples: measure.samples.splice(0), seen };
}

// Where to point at for a metric: the middle of one of its elements that can be seen, the `nth` of them.
function aim(metric, nth) {
  const seen = [...document.querySelectorAll(`[data-metric="${metric}"]`)].map((one) => {
    const box = one.getBoundingClientRect();
    return [box.left + box.width / 2, box.top + box.height / 2, one];
  }).filter(([x, y, one]) => x > 0 && y > 0 && x < innerWidth && y < innerHeight && one.contains(document.elementFromPoint(x, y)));
  if (!seen.length) return null;
  const [x, y] = seen[nth % seen.length];
  return [x, y];
}

// Where to turn the wheel, and how far it goes up and down from here.
function room(nth) {
  const panes = [...document.querySelectorAll(".pane")].filter((one) => one.scrollHeight > one.clientHeight + 200);
  const pane = panes.length ? panes[nth % panes.length] : document.scrollingElement;
  const box = panes.length ? pane.getBoundingClientRect() : { left: 0, top: 0, width: innerWidth, height: innerHeight };
  return { x: box.left + box.width / 2, y: box.top + box.height * 0.6, up: pane.scrollTop,
           down: pane.scrollHeight - pane.clientHeight - pane.scrollTop };
}
