// Show a browser notification when more runs wait than before, while the page has no focus.
// It has their number, and nothing of what they ask.
(() => {
  const KEY = "sojourn-notify";
  const button = document.getElementById("notify"), rooms = document.querySelector(".top nav");
  if (!button || !rooms || !("Notification" in window)) return;
  const isOn = () => {
    try { return Notification.permission === "granted" && localStorage.getItem(KEY) === "on"; } catch { return false; }
  };
  const show = () => {
    button.hidden = false;
    button.textContent = isOn() ? "Stop notifications" : Notification.permission === "denied" ? "Notifications are blocked in this browser" : "Notify me when runs wait";
    button.disabled = Notification.permission === "denied";
  };
  button.addEventListener("click", async () => {
    const wanted = !isOn() && (await Notification.requestPermission()) === "granted";
    try { localStorage.setItem(KEY, wanted ? "on" : "off"); } catch { /* a private window keeps nothing */ }
    show();
  });
  const count = () => Number(document.getElementById("waiting")?.dataset.count || 0);
  let last = count();
  new MutationObserver(() => {
    const now = count();
    if (now > last && isOn() && !document.hasFocus()) {
      const told = new Notification("Sojourn", { body: `${now} ${now === 1 ? "run waits" : "runs wait"} for a person`, tag: "sojourn-waits" });
      told.onclick = () => { window.focus(); location.href = button.dataset.inbox; };
    }
    last = now;
  }).observe(rooms, { subtree: true, childList: true, attributes: true, attributeFilter: ["data-count"] });
  show();
})();
