(function () {
  "use strict";
  var root = document.documentElement;
  if (!window.Plotly) return; // the printed figures stay
  root.classList.add("js");
  var figures = JSON.parse(document.getElementById("figures").textContent);
  var dark = window.matchMedia("(prefers-color-scheme: dark)");
  var touch = window.matchMedia("(pointer: coarse)");

  // What begins with a dollar is a variable of the style, which is another one in the dark.
  function colored(value, style) {
    if (typeof value === "string") {
      if (value === "inherit") return style.fontFamily || "sans-serif";
      return value.charAt(0) === "$" ? style.getPropertyValue("--" + value.slice(1)).trim() : value;
    }
    if (Array.isArray(value)) return value.map(function (v) { return colored(v, style); });
    if (value && typeof value === "object") {
      var made = {};
      Object.keys(value).forEach(function (k) {
        made[k] = k === "x" || k === "y" || k === "text" || k === "customdata" ? value[k] : colored(value[k], style);
      });
      return made;
    }
    return value;
  }

  function fitted(figure, width) {
    var layout = figure.layout;
    if (touch.matches) layout.dragmode = false; // a finger on the figure scrolls the page
    if (width >= 560) return figure;
    layout.font.size = 12;
    layout.margin = { l: 46, r: 10, t: 36, b: 46 }; // the buttons lie above
    (layout.annotations || []).forEach(function (a) {
      if (a.name) a.text = a.name;
      if (a.font) a.font.size = Math.min(a.font.size || 12, 11);
    });
    ["xaxis", "yaxis"].forEach(function (axis) {
      if (!layout[axis]) return;
      layout[axis].nticks = 5;
      if (layout[axis].title) layout[axis].title.text = layout[axis].title.text.replace(/:[^(]*/, " ");
    });
    return figure;
  }

  var off = {};
  function draw(place) {
    var style = window.getComputedStyle(root);
    var figure = fitted(colored(figures[place.id], style), place.clientWidth);
    figure.data.forEach(function (t) { if ((off[place.id] || {})[t.legendgroup]) t.visible = false; });
    // By name: plotly's own choice would offer to share the figure on a server of its makers.
    var buttons = ["toImage", "zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"];
    var config = { responsive: true, displaylogo: false, modeBarButtons: [buttons] };
    return window.Plotly.react(place, figure.data, figure.layout, config).then(function () {
      if (!place.dataset.drawn) watch(place);
      place.dataset.drawn = "yes";
    });
  }

  function watch(place) {
    var note = document.querySelector('.picked[data-for="' + place.id + '"]');
    if (!note) return;
    place.on("plotly_click", function (event) {
      var point = event.points[0], lines = String(point.text || "").split("<br>");
      if (!point.customdata) return;
      var key = point.customdata, whole = lines.join(" "), at = whole.indexOf("tune-vfl export");
      note.textContent = "";
      var what = document.createElement("span"), command = document.createElement("code");
      what.textContent = plain(at < 0 ? whole : whole.slice(0, at)) + " (" + key + ") ";
      command.textContent = at < 0 ? key : plain(whole.slice(at));
      note.append(what, command);
    });
  }

  function plain(text) { return text.replace(/&lt;/g, "<").replace(/&gt;/g, ">").replace(/&amp;/g, "&"); }

  document.querySelectorAll(".keys").forEach(function (keys) {
    var place = document.getElementById(keys.dataset.for);
    keys.addEventListener("click", function (event) {
      var key = event.target.closest(".key");
      if (!key) return;
      var shown = key.getAttribute("aria-pressed") !== "true";
      key.setAttribute("aria-pressed", String(shown));
      (off[place.id] = off[place.id] || {})[key.dataset.name] = !shown;
      draw(place);
    });
  });

  var places = Array.prototype.slice.call(document.querySelectorAll(".plot"));
  var seen = new IntersectionObserver(function (entries) {
    entries.forEach(function (entry) {
      if (!entry.isIntersecting) return;
      seen.unobserve(entry.target);
      draw(entry.target);
    });
  }, { rootMargin: "300px" });
  places.forEach(function (place) { seen.observe(place); });
  dark.addEventListener("change", function () {
    places.filter(function (p) { return p.dataset.drawn; }).forEach(draw);
  });

  // A page that reloads itself keeps what a reader has opened.
  document.querySelectorAll("details[id]").forEach(function (d) {
    var name = "open " + window.location.pathname + " " + d.id;
    try {
      if (window.sessionStorage.getItem(name)) d.open = true;
      d.addEventListener("toggle", function () {
        if (d.open) window.sessionStorage.setItem(name, "yes"); else window.sessionStorage.removeItem(name);
      });
    } catch (e) { /* no storage: they close */ }
  });
})();
