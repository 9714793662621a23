"use strict";
(() => {
  const numbers = JSON.parse(document.getElementById("numbers").textContent);
  const view = JSON.parse(document.getElementById("view").textContent);
  const cells = numbers.cells, NOTHING = 65535, TOP = 65534;
  const canvas = document.getElementById("heat"), pen = canvas.getContext("2d");
  const where = document.getElementById("where"), pick = document.getElementById("layer");
  const codes = name => {
    const text = atob(cells[name]), out = new Uint16Array(text.length / 2);
    for (let k = 0; k < out.length; k++) out[k] = text.charCodeAt(2 * k) | (text.charCodeAt(2 * k + 1) << 8);
    return out;
  };
  const values = codes("values"), seen = codes("observed"), width = codes("width");
  const coldRows = codes("cold_rows"), coldColumns = codes("cold_columns");
  const R = cells.rows, C = cells.columns;
  const valueAt = (i, j) => cells.low + values[i * C + j] * (cells.high - cells.low) / TOP;
  const widthCode = (i, j) => width[
    Math.floor(i * cells.width_rows / R) * cells.width_columns + Math.floor(j * cells.width_columns / C)];
  const statusAt = (i, j) => seen[i * C + j] > TOP / 2 ? 0 : coldRows[i] > TOP / 2 || coldColumns[j] > TOP / 2 ? 2 : 1;

  // One small picture per layer; zooming only draws it larger.
  const colour = {
    completed(i, j) {
      const [low, high] = cells.scale, x = high > low ? (valueAt(i, j) - low) / (high - low) : .5;
      return view.values[Math.max(0, Math.min(255, Math.round(255 * x)))];
    },
    uncertainty(i, j) {
      const code = widthCode(i, j);
      return code === NOTHING ? null : view.widths[Math.round(code / TOP * 255)];
    },
    status(i, j) { return view.status[statusAt(i, j)]; },
  };
  const pictures = {};
  const picture = layer => {
    if (pictures[layer]) return pictures[layer];
    const out = document.createElement("canvas");
    out.width = C; out.height = R;
    const ink = out.getContext("2d"), data = ink.createImageData(C, R);
    for (let i = 0, k = 0; i < R; i++) for (let j = 0; j < C; j++, k += 4) {
      const rgb = colour[layer](i, j);
      if (rgb) { data.data[k] = rgb[0]; data.data[k + 1] = rgb[1]; data.data[k + 2] = rgb[2]; data.data[k + 3] = 255; }
    }
    ink.putImageData(data, 0, 0);
    return (pictures[layer] = out);
  };

  let zoom = 1, left = 0, top = 0, chosen = null;
  const size = () => [canvas.clientWidth, canvas.clientHeight];
  const cellSize = () => { const [w, h] = size(); return [w / C * zoom, h / R * zoom]; };
  const keep = () => {
    const [w, h] = size();
    left = Math.min(0, Math.max(w - w * zoom, left));
    top = Math.min(0, Math.max(h - h * zoom, top));
    canvas.style.touchAction = zoom > 1 ? "none" : "pan-y";
  };
  const digits = x => { const t = Number(x.toPrecision(4)); return (Math.abs(t) >= 1e5 ? t.toExponential() : String(t)).replace(/-/g, "−"); };
  function draw() {
    keep();
    const [w, h] = size(), ratio = devicePixelRatio || 1, [cw, ch] = cellSize();
    canvas.width = Math.round(w * ratio); canvas.height = Math.round(h * ratio);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.imageSmoothingEnabled = false;
    pen.drawImage(picture(pick.value), left, top, w * zoom, h * zoom);
    if (cw >= 46 && ch >= 17) words(cw, ch);
    if (chosen) {
      pen.lineWidth = 2; pen.strokeStyle = "#000";
      const box = [left + chosen[1] * cw, top + chosen[0] * ch, Math.max(cw, 4), Math.max(ch, 4)];
      pen.strokeRect(...box);
      pen.strokeStyle = "#fff"; pen.lineWidth = 1; pen.strokeRect(...box);
    }
  }
  function words(cw, ch) {
    const [w, h] = size();
    pen.font = "11px system-ui, sans-serif"; pen.textAlign = "center"; pen.textBaseline = "middle";
    const first = Math.max(0, Math.floor(-left / cw)), last = Math.min(C - 1, Math.floor((w - left) / cw));
    for (let i = Math.max(0, Math.floor(-top / ch)); i <= Math.min(R - 1, Math.floor((h - top) / ch)); i++)
      for (let j = first; j <= last; j++) {
        const rgb = colour[pick.value](i, j);
        let text = digits(valueAt(i, j));
        if (pick.value === "uncertainty") { const c = widthCode(i, j); text = c === NOTHING ? "" : "±" + half(c); }
        if (pick.value === "status") text = view.words[statusAt(i, j)].slice(0, 8);
        pen.fillStyle = rgb && (rgb[0] * .299 + rgb[1] * .587 + rgb[2] * .114) > 140 ? "#000" : "#fff";
        pen.fillText(text, left + (j + .5) * cw, top + (i + .5) * ch, cw - 4);
      }
  }
  const half = code => code === TOP && cells.width_widest ? "unbounded" : digits(cells.width_low + code * (cells.width_high - cells.width_low) / TOP);
  function tell() {
    if (!chosen) return;
    const [i, j] = chosen, code = widthCode(i, j), share = seen[i * C + j] / TOP;
    const state = cells.averaged ? `mean of a block, ${digits(100 * share)}% of it measured` : view.words[statusAt(i, j)];
    const told = !cells.averaged && statusAt(i, j) === 0;  // a measured value stands as it is
    const sure = told || code === NOTHING ? "" : `, ± ${half(code)}`;
    where.replaceChildren();
    for (const [kind, text] of [["bdi", cells.row_labels[i]], ["", " × "], ["bdi", cells.column_labels[j]], ["", ": "],
      ["b", digits(valueAt(i, j))], ["", sure + ` (${state})`]]) {
      const part = kind ? document.createElement(kind) : document.createTextNode(text);
      if (kind) part.textContent = text;
      where.append(part);
    }
  }
  function select(i, j) {
    chosen = [Math.max(0, Math.min(R - 1, i)), Math.max(0, Math.min(C - 1, j))];
    tell(); draw();
  }
  function zoomAt(x, y, factor) {
    const most = Math.max(1, 160 * C / size()[0], 48 * R / size()[1]);
    const next = Math.max(1, Math.min(most, zoom * factor));
    left = x - (x - left) * next / zoom; top = y - (y - top) * next / zoom; zoom = next;
    draw();
  }
  const spot = event => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
  const pointAt = (x, y) => { const [cw, ch] = cellSize(); select(Math.floor((y - top) / ch), Math.floor((x - left) / cw)); };

  const fingers = new Map();
  let moved = 0;
  canvas.addEventListener("pointerdown", e => { canvas.setPointerCapture(e.pointerId); fingers.set(e.pointerId, spot(e)); moved = 0; });
  canvas.addEventListener("pointermove", e => {
    const [x, y] = spot(e), before = fingers.get(e.pointerId);
    if (!before) { if (e.pointerType === "mouse") pointAt(x, y); return; }
    if (fingers.size === 1) {
      moved += Math.abs(x - before[0]) + Math.abs(y - before[1]);
      left += x - before[0]; top += y - before[1];
    } else {
      const [a, b] = [...fingers.keys()].map(k => fingers.get(k)), old = Math.hypot(a[0] - b[0], a[1] - b[1]);
      fingers.set(e.pointerId, [x, y]);
      const [c, d] = [...fingers.keys()].map(k => fingers.get(k));
      zoomAt((c[0] + d[0]) / 2, (c[1] + d[1]) / 2, Math.hypot(c[0] - d[0], c[1] - d[1]) / (old || 1));
      moved += 99;
    }
    fingers.set(e.pointerId, [x, y]); draw();
  });
  for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, e => {
    if (fingers.size === 1 && moved < 6 && name === "pointerup") pointAt(...spot(e));
    fingers.delete(e.pointerId);
  });
  canvas.addEventListener("wheel", e => {
    if (!(e.ctrlKey || e.metaKey || document.activeElement === canvas)) return;  // else the page scrolls
    e.preventDefault(); zoomAt(...spot(e), Math.exp(-e.deltaY / 300));
  }, { passive: false });
  canvas.addEventListener("dblclick", e => zoomAt(...spot(e), 2));
  canvas.addEventListener("keydown", e => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[e.key];
    if (step) { const [i, j] = chosen || [0, 0]; select(i + step[0], j + step[1]); follow(); }
    else if (e.key === "+" || e.key === "=") middle(1.5);
    else if (e.key === "-") middle(1 / 1.5);
    else if (e.key === "0") middle(0);
    else return;
    e.preventDefault();
  });
  function follow() {  // keep the chosen cell in sight
    const [w, h] = size(), [cw, ch] = cellSize(), [i, j] = chosen;
    left = Math.min(-j * cw + w - cw, Math.max(-j * cw, left)); top = Math.min(-i * ch + h - ch, Math.max(-i * ch, top));
    draw();
  }
  function middle(factor) {
    const [w, h] = size(), [cw, ch] = cellSize();
    zoomAt(chosen ? left + (chosen[1] + .5) * cw : w / 2, chosen ? top + (chosen[0] + .5) * ch : h / 2, factor || 1e-9);
  }
  document.getElementById("in").onclick = () => middle(1.6);
  document.getElementById("out").onclick = () => middle(1 / 1.6);
  document.getElementById("all").onclick = () => middle(0);
  pick.onchange = () => {
    for (const legend of document.querySelectorAll("#viewer [data-layer]")) legend.hidden = legend.dataset.layer !== pick.value;
    tell(); draw();
  };
  addEventListener("resize", draw);
  document.documentElement.classList.add("live");
  pick.onchange();
  select(0, 0);
})();
