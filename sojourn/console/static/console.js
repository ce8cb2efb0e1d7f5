// What no form and no stream can do: the switch of the colours, moments that grow older, keys, JSON that is none, and whether the page is live.
(() => {
  "use strict";
  const root = document.documentElement;

  // Light and dark.
  const theme = document.getElementById("theme");
  if (theme) {
    theme.hidden = false;
    theme.addEventListener("click", () => {
      const isDark = (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
      root.dataset.theme = isDark ? "light" : "dark";
      try { localStorage.setItem("sojourn-theme", root.dataset.theme); } catch {}
    });
  }

  // "3 min ago" grows older; the words are those of views/text.py.
  const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const pad = (number) => String(number).padStart(2, "0");
  const exact = (at) => {
    const day = new Date(at);
    const date = `${day.getFullYear()}-${pad(day.getMonth() + 1)}-${pad(day.getDate())}`;
    return `${date} ${pad(day.getHours())}:${pad(day.getMinutes())}:${pad(day.getSeconds())}`;
  };
  let isExact = false;
  try { isExact = localStorage.getItem("sojourn-times") === "exact"; } catch {}
  const ago = (at) => {
    if (isExact) return exact(at);
    const seconds = (Date.now() - at) / 1000;
    for (const [unit, length] of UNITS) {
      if (Math.abs(seconds) >= length && (unit !== "s" || Math.abs(seconds) >= 5)) {
        return seconds > 0 ? `${Math.floor(seconds / length)} ${unit} ago` : `in ${Math.round(-seconds / length)} ${unit}`;
      }
    }
    return "now";
  };
  const showTimes = () => {
    for (const each of document.querySelectorAll("time[data-ago]")) {
      const text = ago(Date.parse(each.dateTime));
      if (each.textContent !== text) each.textContent = text;
    }
  };
  setInterval(showTimes, 5000);
  document.addEventListener("htmx:sse:after:message", () => { if (isExact) showTimes(); });
  const times = document.getElementById("times");
  if (times) {
    times.hidden = false;
    times.setAttribute("aria-pressed", String(isExact));
    times.addEventListener("click", () => {
      isExact = !isExact;
      times.setAttribute("aria-pressed", String(isExact));
      try { localStorage.setItem("sojourn-times", isExact ? "exact" : ""); } catch {}
      showTimes();
    });
    if (isExact) showTimes();
  }

  // What is to be pasted elsewhere, such as an id or a command.
  document.addEventListener("click", async (event) => {
    const button = event.target.closest?.("[data-copy]");
    if (!button) return;
    try { await navigator.clipboard.writeText(button.dataset.copy); } catch { // not a secure page
      const area = document.createElement("textarea");
      area.value = button.dataset.copy;
      button.after(area);
      area.select();
      const isCopied = document.execCommand("copy");
      area.remove();
      if (!isCopied) return;
    }
    const before = button.textContent;
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = before; }, 1500);
  });

  // Whether what is shown is what is so.
  const connection = document.getElementById("connection");
  const say = (state, text) => {
    if (!connection || (connection.dataset.state === state && connection.textContent === text)) return;
    connection.dataset.state = state;
    connection.textContent = text;
  };
  document.addEventListener("htmx:sse:after:connection", () => say("live", "Live"));
  document.addEventListener("unavailable", (event) => event.detail.data ? say("lost", event.detail.data) : say("live", "Live"));
  document.addEventListener("htmx:sse:close", () => say("ended", ""));
  document.addEventListener("htmx:sse:error", (event) => {
    if (event.detail.status === 401) location.reload(); // the key opens no more: to the page to sign in at
    say("lost", "Connecting…");
  });

  // What was asked for or sent, and got no answer of a page: nothing fails in silence.
  const tell = (lead, then) => {
    const notice = document.getElementById("notice");
    if (!notice) return;
    const told = document.createElement("div");
    told.className = "problem";
    told.setAttribute("role", "alert");
    for (const [name, text] of [["lead", lead], ["", then]]) {
      const line = document.createElement("p");
      line.className = name;
      line.textContent = text;
      told.append(line);
    }
    notice.replaceChildren(told);
  };
  let isToldByStream = false; // that something is wrong; the next news say that it is over
  document.addEventListener("htmx:sse:before:message", (event) => {
    const isNotice = /id="notice"/.test(event.detail.message.data ?? "");
    if (isToldByStream && !isNotice) document.getElementById("notice")?.replaceChildren();
    isToldByStream = isNotice;
  });
  document.addEventListener("htmx:error", (event) => {
    if (event.detail.ctx && !event.detail.ctx.response) tell("The service does not respond.", "Your request may not have arrived. Check before sending it again.");
  });
  document.addEventListener("htmx:response:error", (event) => {
    const { response, text } = event.detail.ctx;
    if (!/<hx-partial/.test(text ?? "")) tell(`That didn't work (${response.status}).`, "Reload the page and try again.");
  });

  // Calls that went into a fold have no row of their own any more. One that somebody reads stays open, in the fold.
  let isRead = [];
  const reopened = new Set();
  document.addEventListener("htmx:sse:before:message", (event) => {
    if (event.detail.message.event) return;
    isRead = [...document.querySelectorAll("#tree > .call:not(.fold) > details[open]")].map((each) => each.id);
  });
  document.addEventListener("folded", (event) => {
    for (const key of event.detail.data.split(" ")) document.getElementById(key)?.remove();
  });
  document.addEventListener("htmx:after:swap", () => {
    for (const id of reopened) {
      const call = document.querySelector(`.fold [id$="-${CSS.escape(id)}"]`);
      if (call && reopened.delete(id)) call.open = true;
    }
  });

  // What happens in a child run, and in a fold, is shown where it is open.
  document.addEventListener("child", (event) => {
    for (const each of document.querySelectorAll(`.child[data-run="${CSS.escape(event.detail.data)}"]`)) {
      const gone = each.closest(".fold") ? isRead.filter((id) => !document.getElementById(id)) : [];
      if (each.closest("details").open) htmx.trigger(each, "refresh");
      else if (gone.length) each.closest("details").open = true;
      for (const id of gone) reopened.add(id);
    }
  });

  // Of tabs that have no room, the one that is shown is in sight.
  const tab = document.querySelector(".tabs [aria-current]");
  if (tab) tab.parentElement.scrollLeft = tab.offsetLeft - (tab.parentElement.clientWidth - tab.offsetWidth) / 2;

  // A link to a part of the page opens what it is in.
  const named = () => {
    const name = location.hash.slice(1);
    try { return decodeURIComponent(name); } catch { return name; } // somebody may have written anything there
  };
  const unfold = () => {
    const wanted = location.hash.length > 1 && document.getElementById(named());
    if (!wanted) return;
    for (let fold = wanted.querySelector("details") || wanted; fold; fold = fold.parentElement) {
      if (fold.matches("details")) fold.open = true;
    }
    wanted.scrollIntoView();
  };
  addEventListener("hashchange", unfold);
  unfold();

  // A key goes to the field or link that names it, unless somebody types.
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = document.activeElement;
    if (event.key === "Escape" && at instanceof HTMLElement) {
      const menu = at.closest("details.menu[open]");
      if (menu) menu.open = false;
      else at.blur();
      return;
    }
    if (at && at.matches("input, textarea, select, [contenteditable]")) return;
    const wanted = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
    if (!wanted) return;
    event.preventDefault();
    if (wanted.matches("input, textarea, select")) wanted.focus();
    else wanted.click();
  });
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll("details.menu[open]")) {
      if (!menu.contains(event.target)) menu.open = false;
    }
  });

  // What is sent once has an effect once: a second click sends nothing.
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!form.matches("form[data-once]")) return;
    if (form.dataset.sent) event.preventDefault();
    form.dataset.sent = "yes";
    setTimeout(() => { for (const button of form.querySelectorAll("button")) button.disabled = true; }); // after its value is sent
  });
  addEventListener("pageshow", () => { // also of a page that somebody comes back to
    for (const form of document.querySelectorAll("form[data-once]")) {
      delete form.dataset.sent;
      for (const button of form.querySelectorAll("button")) button.disabled = false;
    }
  });

  // One box chooses all of its name, and what is done in steps goes on by itself.
  document.addEventListener("change", (event) => {
    const name = event.target.dataset?.all;
    if (!name) return;
    for (const each of document.querySelectorAll(`input[name="${CSS.escape(name)}"]`)) each.checked = event.target.checked;
  });
  document.querySelector("form[data-continue]")?.requestSubmit();

  // JSON is checked at once.
  document.addEventListener("input", (event) => {
    const area = event.target;
    if (!area.matches?.("textarea[data-json]")) return;
    let wrong = "";
    if (area.value.trim()) try { JSON.parse(area.value); } catch (error) { wrong = `Not valid JSON: ${error.message}`; }
    area.setCustomValidity(wrong);
    const told = document.getElementById(`${area.id}-fault`);
    if (told) told.textContent = wrong;
    area.toggleAttribute("aria-invalid", Boolean(wrong));
  });
})();
