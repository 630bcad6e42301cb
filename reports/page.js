(function () {
  "use strict";
  var tip = document.getElementById("tip");
  function same(key) {
    return Array.prototype.filter.call(document.querySelectorAll("[data-trial]"), function (e) {
      return e.getAttribute("data-trial") === key;
    });
  }
  function light(mark, on) {
    var key = mark.getAttribute("data-trial");
    if (key) same(key).forEach(function (e) { e.classList.toggle("on", on); });
  }
  function show(mark, x, y) {
    tip.textContent = mark.getAttribute("data-tip");
    tip.hidden = false;
    var w = tip.offsetWidth, h = tip.offsetHeight;
    tip.style.left = Math.max(6, Math.min(x + 14, window.innerWidth - w - 6)) + "px";
    tip.style.top = (y + 18 + h > window.innerHeight ? y - h - 12 : y + 18) + "px";
    light(mark, true);
  }
  function hide(mark) { tip.hidden = true; light(mark, false); }
  document.querySelectorAll(".mark").forEach(function (mark) {
    mark.addEventListener("mousemove", function (e) { show(mark, e.clientX, e.clientY); });
    mark.addEventListener("mouseleave", function () { hide(mark); });
    mark.addEventListener("focus", function () { var b = mark.getBoundingClientRect(); show(mark, b.right, b.bottom); });
    mark.addEventListener("blur", function () { hide(mark); });
  });
  document.querySelectorAll("tr[data-trial]").forEach(function (row) {
    row.addEventListener("mouseenter", function () { light(row, true); });
    row.addEventListener("mouseleave", function () { light(row, false); });
  });
})();
