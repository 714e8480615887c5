// SPDX-License-Identifier: Apache-2.0
//
// The script of flamegraph.html. ASCII only, and no end tag of a script: it stands in the page. Names come from programs:
// they may only be shown by textContent and fillText.
'use strict';
(() => {
const ALL = 0, PROCESS = 1, THREAD = 2, PROGRAM = 3, LIBRARY = 4, NATIVE = 5, UNKNOWN = 6, SMALLER = 7;
const ROW = 19, LEAST_WIDTH = 0.5;
const byId = (id) => document.getElementById(id);
const over = byId('over'), base = byId('base'), scroll = byId('scroll');

function fail(text) {
  byId('empty').hidden = false;
  byId('empty').textContent = text;
  byId('hint').hidden = true;
}
let data;
try {
  data = JSON.parse(byId('data').textContent);
} catch (error) {
  fail('The data of this page is damaged.');
  return;
}

// ---- The trees. Nodes are in preorder: those below node i are i + 1 to end[i] - 1.
class Tree {
  constructor(raw) {
    const count = raw.depth.length;
    this.kind = raw.kind;
    this.merged = raw.merged;
    this.intervals = raw.intervals_us;
    this.count = count;
    this.depth = Int32Array.from(raw.depth);
    this.frame = Int32Array.from(raw.frame);
    this.parent = new Int32Array(count);
    this.end = new Int32Array(count);
    this.frames = [];
    for (let i = 0; i + 3 < raw.frames.length; i += 4) {
      const [name, group, place] = [0, 1, 2].map((at) => data.strings[raw.frames[i + at]]);
      this.frames.push({name, group, place, origin: raw.frames[i + 3]});
    }
    const open = [];
    for (let i = 0; i < count; ++i) {
      while (open.length > this.depth[i]) this.end[open.pop()] = i;
      this.parent[i] = open.length ? open[open.length - 1] : 0;
      open.push(i);
    }
    while (open.length) this.end[open.pop()] = count;
    this.samples = this.sums(raw.samples);
    this.time = this.sums(raw.time_ns);
    this.cpu = raw.cpu_ns ? this.sums(raw.cpu_ns) : this.time;
  }
  // Of each node: its own part, the total with the nodes below it, and the sum of its neighbours to the left.
  sums(numbers) {
    const self = Float64Array.from(numbers), total = Float64Array.from(numbers), start = new Float64Array(this.count);
    for (let i = this.count - 1; i > 0; --i) total[this.parent[i]] += total[i];
    const next = new Float64Array(this.count);
    for (let i = 1; i < this.count; ++i) {
      const parent = this.parent[i];
      start[i] = start[parent] + next[parent];
      next[parent] += total[i];
    }
    return {self, total, start};
  }
  frameOf(node) { return this.frames[this.frame[node]]; }
  threads() {
    const found = [];
    for (let i = 1; i < this.count; ++i) if (this.frameOf(i).origin === THREAD) found.push(i);
    return found;
  }
  threadName(node) { return this.frameOf(this.parent[node]).name + ' / ' + this.frameOf(node).name; }
}

// ---- Texts. Intervals between samples: the shortest and the longest of all processes, 0 if not known.
function rateText([shortest, longest]) {
  const [low, high] = [longest, shortest].map((us) => Math.round(1e6 / us));
  if (!shortest) return '';
  return low === high ? ` about ${low === 1 ? 'once' : `${low} times`} a second` : ` between ${low} and ${high} times a second`;
}
function intervalText([shortest, longest]) {
  const [low, high] = [shortest, longest].map((us) => Math.round(us / 100) / 10);
  if (!shortest) return '';
  return low === high ? ` about every ${low} ms` : ` every ${low} to ${high} ms`;
}
function timeText(ns) {
  const three = (value) => value >= 99.95 ? value.toFixed(0) : value >= 9.995 ? value.toFixed(1) : value.toFixed(2);
  if (ns >= 3600e9) return `${Math.floor(ns / 3600e9)} h ${Math.round(ns % 3600e9 / 60e9)} min`;
  if (ns >= 60e9) return `${Math.floor(ns / 60e9)} min ${Math.round(ns % 60e9 / 1e9)} s`;
  if (ns >= 1e9) return three(ns / 1e9) + ' s';
  if (ns >= 1e6) return three(ns / 1e6) + ' ms';
  return ns > 0 ? three(ns / 1e3) + ' us' : '0 s';
}
function shareText(part, whole) {
  const percent = whole > 0 ? 100 * part / whole : 0;
  return (percent >= 9.95 || percent === 0 ? percent.toFixed(0) : percent >= 0.095 ? percent.toFixed(1) : '< 0.1') +
    ' %';
}
const countText = (count, word) => `${count.toLocaleString('en')} ${word}${count === 1 ? '' : 's'}`;

// ---- What is shown
const views = [];
for (const raw of data.trees) {
  const tree = new Tree(raw);
  if (tree.kind === 'python') {
    const read = 'tbprof read the stack of every Python thread' + rateText(tree.intervals) +
      ', also while it waited. ';
    views.push({name: 'Python: all time', tree, sums: tree.time, samples: '',
                about: read + 'A width is all the time that a function took, running or waiting.'});
    if (tree.cpu.total[0] > 0) {
      views.push({name: 'Python: CPU time', tree, sums: tree.cpu, samples: ' (waits included)',
                  about: read + 'A width is the time in which the thread used a CPU.'});
    }
  } else {
    views.push({name: 'native code: CPU time', tree, sums: tree.cpu, samples: '',
                about: 'The kernel sampled the native stack of every running thread' +
                  (intervalText(tree.intervals) && intervalText(tree.intervals) + ' of its CPU time') +
                  '. A width is CPU time in user code: a thread that waits uses none.'});
  }
}
let view = views[0];
let root = 0;          // of what is shown: all threads, or one
let zoom = 0;          // the node that has the whole width
let cursor = -1;       // of the keyboard
let hovered = -1;
let callersOnTop = true;
let matches = null;    // for each frame of the tree, whether the search finds it; null: no search
let rows = [];         // for each row the nodes that are drawn, with their borders
let colours = new Map();
let dark = false;

// ---- Colours: hue by file or module within the range of the origin, lightness by function.
const HUES = {[PROGRAM]: [14, 46], [LIBRARY]: [95, 168], [NATIVE]: [195, 298]};
function hash(text) {
  let value = 2166136261;
  for (let i = 0; i < text.length; ++i) value = Math.imul(value ^ text.charCodeAt(i), 16777619);
  value ^= value >>> 15;
  value = Math.imul(value, 0x2c1b3c6d);
  return (value ^ value >>> 13) >>> 0;
}
function colourOf(frame) {
  const known = colours.get(frame);
  if (known) return known;
  let colour;
  const range = HUES[frame.origin];
  if (range) {
    const hue = range[0] + hash(frame.group) % (range[1] - range[0] + 1);
    const step = hash(frame.name) % 7;
    const warm = frame.origin === PROGRAM;
    colour = dark ? `hsl(${hue} ${warm ? 62 : 42}% ${30 + step}%)`
      : `hsl(${hue} ${warm ? 92 : 58}% ${70 + 1.3 * step}%)`;
  } else {
    colour = {[ALL]: dark ? '#3c4147' : '#d3d7db', [PROCESS]: dark ? '#33383d' : '#dfe2e5',
              [THREAD]: dark ? '#2b2f34' : '#e9ebed'}[frame.origin] || (dark ? '#45484b' : '#c9cbcd');
  }
  colours.set(frame, colour);
  return colour;
}
function showLegend() {
  const kinds = view.tree.kind === 'python'
    ? [[PROGRAM, 'the program\'s own code'], [LIBRARY, 'Python libraries']] : [[NATIVE, 'native code']];
  const legend = byId('legend');
  legend.textContent = '';
  const add = (colour, text) => {
    const item = document.createElement('span'), box = document.createElement('i');
    box.style.background = colour;
    item.append(box, text);
    legend.append(item);
  };
  for (const [origin, text] of kinds) {
    const [low, high] = HUES[origin];
    const at = (hue) => dark ? `hsl(${hue} 50% 33%)` : `hsl(${hue} 75% 74%)`;
    add(`linear-gradient(90deg, ${at(low)}, ${at(high)})`,
        text + (origin === NATIVE ? ' (a colour for each module)' : ' (a colour for each file)'));
  }
  add(dark ? '#33383d' : '#dfe2e5', 'processes and threads');
  if (view.tree.merged) {
    const note = document.createElement('span');
    note.className = 'dim';
    note.textContent = `The ${view.tree.merged.toLocaleString('en')} boxes` +
      ' with the least time are drawn as "(N smaller)": their time is in all sums, but the search cannot find them';
    legend.append(note);
  }
}

// ---- Layout: from the root down to the zoomed node, each caller has the whole width.
function layOut() {
  const {tree, sums} = view, width = scroll.clientWidth;
  rows = [];
  const put = (row, node, left, right) => {
    while (rows.length <= row) rows.push({nodes: [], left: [], right: []});
    rows[row].nodes.push(node);
    rows[row].left.push(left);
    rows[row].right.push(right);
  };
  for (let node = zoom;; node = tree.parent[node]) {
    put(tree.depth[node] - tree.depth[root], node, 0, width);
    if (node === root) break;
  }
  const whole = sums.total[zoom], scale = whole > 0 ? width / whole : 0;
  let boxes = tree.depth[zoom] - tree.depth[root] + 1;
  for (let node = zoom + 1; node < tree.end[zoom];) {
    const size = sums.total[node] * scale;
    if (size < LEAST_WIDTH) {
      node = tree.end[node];
      continue;
    }
    const left = (sums.start[node] - sums.start[zoom]) * scale;
    put(tree.depth[node] - tree.depth[root], node, left, left + size);
    ++boxes;
    ++node;
  }
  over.dataset.boxes = boxes;
  byId('space').style.height = Math.max(rows.length * ROW, scroll.clientHeight - 1) + 'px';
}
const areaHeight = () => Math.max(rows.length * ROW, scroll.clientHeight - 1);
const topOf = (row) => callersOnTop ? row * ROW : areaHeight() - (row + 1) * ROW;

function sized(canvas) {
  const ratio = window.devicePixelRatio || 1, width = scroll.clientWidth, height = scroll.clientHeight;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = width + 'px';
    canvas.style.height = height + 'px';
  }
  const context = canvas.getContext('2d');
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

function drawText(context, text, left, width, y, charWidth) {
  const room = width - 7;
  if (room < 2 * charWidth) return;
  // Other characters may be wider.
  const plain = text.length < 2000 && /^[ -~]*$/.test(text);
  if (plain) {
    const fits = Math.floor(room / charWidth);
    if (text.length > fits && fits < 4) return;
    context.fillText(text.length > fits ? text.slice(0, fits - 2) + '..' : text, left + 4, y);
    return;
  }
  context.save();
  context.beginPath();
  context.rect(left + 3, y - ROW, room, 2 * ROW);
  context.clip();
  context.fillText(text.slice(0, 2000), left + 4, y);
  context.restore();
}

function draw() {
  const context = sized(base), {tree} = view, from = scroll.scrollTop, height = scroll.clientHeight;
  context.font = '12px ui-monospace, "DejaVu Sans Mono", monospace';
  context.textBaseline = 'middle';
  const charWidth = context.measureText('MMMMMMMMMM').width / 10;
  const ink = dark ? '#f2f3f4' : '#17191c';
  rows.forEach((row, number) => {
    const y = topOf(number) - from;
    if (y + ROW < 0 || y > height) return;
    row.nodes.forEach((node, at) => {
      const frame = tree.frameOf(node), left = row.left[at], width = row.right[at] - left;
      const matched = matches && matches[tree.frame[node]];
      context.globalAlpha = matches && !matched ? 0.42 : tree.depth[node] < tree.depth[zoom] ? 0.6 : 1;
      context.fillStyle = matched ? '#c2187f' : colourOf(frame);
      context.fillRect(left, y, width > 2.5 ? width - 1 : width, ROW - 1);
      context.fillStyle = matched ? '#fff' : ink;
      drawText(context, frame.name, left, width, y + ROW / 2, charWidth);
    });
  });
  context.globalAlpha = 1;
  drawOver();
}
function drawOver() {
  const context = sized(over);
  const outline = (node, colour) => {
    const box = boxOf(node);
    if (!box) return;
    context.strokeStyle = colour;
    context.lineWidth = 2;
    context.strokeRect(box.left + 1, box.top - scroll.scrollTop + 1, Math.max(box.width - 3, 1), ROW - 3);
  };
  if (hovered >= 0) outline(hovered, dark ? '#fff' : '#000');
  if (cursor >= 0 && document.activeElement === over) outline(cursor, dark ? '#78aeed' : '#1a5fb4');
}
// Where a node is drawn, from the begin of the first row; null: it is not.
function boxOf(node) {
  const number = view.tree.depth[node] - view.tree.depth[root], row = rows[number];
  const at = row ? row.nodes.indexOf(node) : -1;
  return at < 0 ? null : {left: row.left[at], width: row.right[at] - row.left[at], top: topOf(number)};
}
function nodeAt(event) {
  const area = over.getBoundingClientRect(), x = event.clientX - area.left;
  const y = event.clientY - area.top + scroll.scrollTop;
  const row = rows[Math.floor((callersOnTop ? y : areaHeight() - y) / ROW)];
  if (!row) return -1;
  let low = 0, high = row.nodes.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (row.right[middle] <= x) low = middle + 1; else high = middle;
  }
  return low < row.nodes.length && row.left[low] <= x ? row.nodes[low] : -1;
}

// ---- The status line and the tip
function describe(node) {
  const {tree, sums} = view, frame = tree.frameOf(node), total = sums.total[node], self = sums.self[node];
  const isSum = frame.origin < THREAD;
  const parts = [timeText(total) + (isSum ? ', the sum of its threads' : '')], isAll = self === total;
  const shown = root === 0 ? 'all threads' : 'the thread';
  if (zoom !== root && tree.depth[node] >= tree.depth[zoom]) {
    parts.push(shareText(total, sums.total[zoom]) + ' of the zoomed box');
  }
  if (node !== root) parts.push(`${shareText(total, sums.total[root])} of ${shown}`);
  if (frame.origin >= PROGRAM && frame.origin <= NATIVE) {
    parts.push(isAll ? 'all of it in the function itself' : self > 0 ? `${timeText(self)} of it in the function itself`
      : 'all of it in functions that it called');
  }
  parts.push(countText(tree.samples.total[node], 'sample') + view.samples);
  const kind = {[PROGRAM]: 'the program\'s own code', [LIBRARY]: 'Python library', [NATIVE]: 'native code',
                [PROCESS]: 'process', [THREAD]: 'thread', [SMALLER]: 'functions with less time than the others here',
                [UNKNOWN]: frame.name.startsWith('(no Python') ? 'the thread ran no Python function'
                  : 'functions that tbprof could not find'}[frame.origin];
  return {name: frame.name, place: [kind, frame.place].filter(Boolean).join(', '),
          numbers: parts.join(', ')};
}
function fill(element, text) {
  element.textContent = '';
  const add = (name, ...content) => {
    const line = document.createElement('div');
    line.className = name;
    line.append(...content);
    element.append(line);
  };
  if (element.id === 'status') {
    const name = document.createElement('span');
    name.className = 'name';
    name.textContent = text.name;
    add('', name, text.place ? '  -  ' + text.place : '');
  } else {
    add('name', text.name);
    if (text.place) add('dim', text.place);
  }
  add('', text.numbers);
}
function showStatus() {
  const onKeys = cursor >= 0 && document.activeElement === over;
  // A screen reader reads what the keys go to, not each box below the mouse.
  byId('status').setAttribute('aria-live', onKeys && hovered < 0 ? 'polite' : 'off');
  fill(byId('status'), describe(hovered >= 0 ? hovered : onKeys ? cursor : zoom));
}
function showTip(event) {
  const tip = byId('tip');
  tip.hidden = hovered < 0;
  if (tip.hidden) return;
  fill(tip, describe(hovered));
  const box = tip.getBoundingClientRect();
  const left = Math.min(event.clientX + 14, window.innerWidth - box.width - 6);
  const below = event.clientY + 18 + box.height < window.innerHeight;
  tip.style.left = Math.max(left, 4) + 'px';
  tip.style.top = (below ? event.clientY + 18 : Math.max(event.clientY - box.height - 12, 4)) + 'px';
}

// ---- Search
function showSearch() {
  const field = byId('search'), found = byId('found-text');
  let pattern = null, problem = '';
  if (field.value !== '') {
    try {
      pattern = new RegExp(field.value, 'i');
    } catch (error) {
      problem = 'not a regular expression';
    }
  }
  field.classList.toggle('invalid', problem !== '');
  // Threads and processes have a list of their own.
  matches = pattern && view.tree.frames.map((frame) => frame.origin >= PROGRAM && frame.origin <= NATIVE && pattern.test(frame.name));
  byId('found').hidden = field.value === '';
  found.textContent = problem;
  if (matches) {
    // Below a match, others are part of its time.
    const {tree, sums} = view;
    let time = 0, count = 0;
    for (let node = zoom; node < tree.end[zoom];) {
      if (!matches[tree.frame[node]]) {
        ++node;
        continue;
      }
      time += sums.total[node];
      ++count;
      node = tree.end[node];
    }
    const where = zoom !== root ? 'of the zoomed box' : root === 0 ? 'of all threads' : 'of the thread';
    found.textContent = count === 0 ? 'not found' :
      `found: ${shareText(time, sums.total[zoom])} ${where} (${timeText(time)})`;
  }
}

// ---- Changes
function update(toRoot) {
  hovered = -1;
  byId('tip').hidden = true;
  byId('reset').disabled = zoom === root;
  layOut();
  if (toRoot) scroll.scrollTop = callersOnTop ? 0 : scroll.scrollHeight;
  showSearch();
  draw();
  showStatus();
}
function zoomTo(node) {
  if (node < 0) return;
  zoom = node;
  cursor = node;
  update(false);
  reveal(node);
}
function reveal(node) {
  const box = boxOf(node);
  if (!box) return;
  const least = box.top + ROW - scroll.clientHeight;
  if (scroll.scrollTop > box.top) scroll.scrollTop = box.top;
  if (scroll.scrollTop < least) scroll.scrollTop = least;
}
function setRoot(node) {
  root = zoom = cursor = node;
  update(true);
}
function setView(next) {
  const sameTree = next.tree === view.tree, threadName = root === 0 ? '' : view.tree.threadName(root);
  view = next;
  for (const button of byId('views').children) {
    button.setAttribute('aria-pressed', String(button.textContent === view.name));
  }
  byId('about').textContent = view.about;
  showNotes();
  const {tree, sums} = view, list = byId('threads');
  const threads = tree.threads().filter((node) => sums.total[node] > 0);
  threads.sort((a, b) => sums.total[b] - sums.total[a]);
  list.textContent = '';
  const add = (node, text) => {
    const option = document.createElement('option');
    option.value = node;
    option.textContent = text;
    list.append(option);
  };
  add(0, `${timeText(sums.total[0])}: all threads (${threads.length})`);
  for (const node of threads) add(node, `${timeText(sums.total[node])}: ${tree.threadName(node)}`);
  root = threads.find((node) => tree.threadName(node) === threadName) || 0;
  if (!sameTree || zoom < root || zoom >= tree.end[root] || !(sums.total[zoom] > 0)) zoom = root;
  cursor = zoom;
  list.value = root;
  showLegend();
  update(true);
}
function setCallers(onTop) {
  callersOnTop = onTop;
  byId('top').setAttribute('aria-pressed', String(onTop));
  byId('bottom').setAttribute('aria-pressed', String(!onTop));
  update(true);
}

// ---- Keys: to the caller, to the longest function that it called, to the neighbours in the row.
function moveCursor(key) {
  const {tree} = view, number = tree.depth[cursor] - tree.depth[root];
  const inward = callersOnTop ? 'ArrowDown' : 'ArrowUp', outward = callersOnTop ? 'ArrowUp' : 'ArrowDown';
  const row = rows[number], at = row ? row.nodes.indexOf(cursor) : -1;
  let next = -1;
  if (at < 0) next = zoom;
  else if (key === outward && cursor !== root) next = tree.parent[cursor];
  else if (key === 'ArrowLeft') next = row.nodes[at - 1];
  else if (key === 'ArrowRight') next = row.nodes[at + 1];
  else if (key === inward && rows[number + 1]) {
    const inside = rows[number + 1].nodes.filter((node) => node > cursor && node < tree.end[cursor]);
    for (const node of inside) if (!(next >= 0 && view.sums.total[node] <= view.sums.total[next])) next = node;
  }
  if (!(next >= 0)) return;
  cursor = next;
  hovered = -1;
  byId('tip').hidden = true;
  reveal(cursor);
  drawOver();
  showStatus();
}
function onKey(event) {
  if ((event.ctrlKey || event.metaKey) && event.key === 'f') {
    byId('search').focus();
    byId('search').select();
  } else if (event.key === 'Escape') {
    if (document.activeElement === byId('search') && byId('search').value !== '') {
      byId('search').value = '';
      showSearch();
      draw();
    } else {
      zoomTo(root);
    }
  } else if (document.activeElement === over && event.key.startsWith('Arrow')) {
    moveCursor(event.key);
  } else if (document.activeElement === over && (event.key === 'Enter' || event.key === ' ')) {
    zoomTo(cursor);
  } else {
    return;
  }
  event.preventDefault();
}

// Without those of the other kind of samples, if it has a view of its own.
function showNotes() {
  const list = byId('notes');
  const isOfOther = (text) => views.some((one) => one.tree !== view.tree &&
    text.toLowerCase().startsWith(one.tree.kind + ' stacks'));
  const texts = data.notes.filter((text) => !isOfOther(text));
  list.textContent = '';
  list.hidden = texts.length === 0;
  for (const text of texts) {
    const item = document.createElement('li');
    item.textContent = text;
    list.append(item);
  }
}

function start() {
  byId('title').textContent = byId('title').title = data.title;
  document.title = data.title + ' - flame graph';
  byId('facts').textContent = data.facts.join(', ');
  if (views.length === 0) {
    showNotes();
    fail('There is no flame graph, because no stacks were sampled. ' + (data.empty || ''));
    return;
  }
  for (const id of ['tools', 'keys', 'scroll', 'status']) byId(id).hidden = false;
  for (const one of views) {
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = one.name;
    button.addEventListener('click', () => setView(one));
    byId('views').append(button);
  }
  byId('threads').addEventListener('change', () => setRoot(Number(byId('threads').value)));
  byId('top').addEventListener('click', () => setCallers(true));
  byId('bottom').addEventListener('click', () => setCallers(false));
  byId('reset').addEventListener('click', () => zoomTo(root));
  let waiting = 0;
  byId('search').addEventListener('input', () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => { showSearch(); draw(); }, 80);
  });
  over.addEventListener('mousemove', (event) => {
    const node = nodeAt(event), changed = node !== hovered;
    hovered = node;
    if (changed) {
      drawOver();
      showStatus();
    }
    showTip(event);
  });
  over.addEventListener('mouseleave', () => {
    hovered = -1;
    byId('tip').hidden = true;
    drawOver();
    showStatus();
  });
  over.addEventListener('click', (event) => zoomTo(nodeAt(event)));
  for (const kind of ['focus', 'blur']) over.addEventListener(kind, () => { drawOver(); showStatus(); });
  document.addEventListener('keydown', onKey);
  scroll.addEventListener('scroll', () => { hovered = -1; byId('tip').hidden = true; showStatus(); draw(); });
  const scheme = matchMedia('(prefers-color-scheme: dark)');
  const setScheme = () => {
    dark = scheme.matches;
    colours = new Map();
    showLegend();
    draw();
  };
  scheme.addEventListener('change', setScheme);
  dark = scheme.matches;
  setView(view);
  setCallers(true);
  new ResizeObserver(() => { layOut(); draw(); }).observe(scroll);
}
start();

// For tests: where a function is drawn on the screen, of several the widest.
window.flamegraph = {
  find(name) {
    let best = null;
    rows.forEach((row, number) => row.nodes.forEach((node, at) => {
      const left = row.left[at], width = row.right[at] - left;
      if (view.tree.frameOf(node).name.includes(name) && !(best && best.width >= width)) {
        best = {left, width, top: topOf(number)};
      }
    }));
    const area = over.getBoundingClientRect();
    return best && {x: area.left + best.left + best.width / 2, width: best.width,
                    y: area.top + best.top - scroll.scrollTop + ROW / 2};
  },
};
})();
