// What no form can do: Enter sends, an edited message is another one, files that are too large are told before they are sent, and the newest stays in sight.
(() => {
  "use strict";
  document.documentElement.classList.add("has-script");

  document.addEventListener("keydown", (event) => {
    const field = event.target;
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || !(field instanceof HTMLTextAreaElement)) return;
    const isWanted = field.closest("#composer, .settle") || event.ctrlKey || event.metaKey;
    if (!field.matches("[data-send]") || !isWanted) return;
    event.preventDefault();
    if (field.value.trim()) field.form.requestSubmit(field.form.querySelector("button.primary"));
  });

  // A form that is sent again is the same message; edited after it was sent, it is another one.
  const sent = new WeakMap();
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!form.matches("[data-compose]")) return;
    const id = form.elements.message_id;
    if (!id) return; // a form of fields
    const files = [...form.elements.files?.files ?? []].map((file) => [file.name, file.size, file.lastModified]);
    const text = form.elements.text?.value ?? "", said = JSON.stringify([text, files]);
    const before = sent.get(form);
    if (before && before.id === id.value && before.said !== said) {
      id.value = [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    }
    sent.set(form, { id: id.value, said, text, mode: form.elements.mode?.value });
  }, true);

  // A text that somebody has begun to type goes where the page said when the typing began: to this question, or to this turn.
  const bind = () => document.getElementById("modes")?.toggleAttribute("hx-morph-skip", document.getElementById("write")?.value !== "");
  document.addEventListener("input", (event) => { if (event.target.id === "write") bind(); });
  bind();

  // Each answer replaces the form by an empty one. Keep what was typed and chosen meanwhile, also in a form that was never sent: if two
  // messages are on their way, the second answer replaces the form that the first one brought.
  const main = document.querySelector(".talk-main");
  if (main) new MutationObserver((changes) => {
    for (const gone of changes.flatMap((change) => [...change.removedNodes])) {
      const before = sent.get(gone), now = document.getElementById("composer");
      if (!(gone instanceof HTMLFormElement && gone.id === "composer" && now instanceof HTMLFormElement)) continue;
      if (gone.elements.text.value !== (before?.text ?? "")) now.elements.text.value = gone.elements.text.value;
      const mode = gone.elements.mode?.value, isTyped = now.elements.text.value !== "";
      if (mode && (isTyped || mode !== (before?.mode ?? mode))) now.elements.mode.value = mode === "answer" ? "queue" : mode;
      bind();
      if (!before && gone.elements.files.files.length) now.elements.files.files = gone.elements.files.files;
    }
  }).observe(main, { childList: true });

  // Files are dropped on a form, or pasted into it.
  const add = (event, given) => {
    const form = event.target instanceof Element && event.target.closest("form:has(input[name=files])");
    if (!form || !given?.files.length) return;
    event.preventDefault();
    const field = form.elements.files, all = new DataTransfer();
    for (const file of [...field.files, ...given.files]) all.items.add(file);
    field.files = all.files;
    field.dispatchEvent(new Event("change", { bubbles: true }));
  };
  document.addEventListener("paste", (event) => add(event, event.clipboardData));
  document.addEventListener("drop", (event) => add(event, event.dataTransfer));
  document.addEventListener("dragover", (event) => {
    if (event.target instanceof Element && event.target.closest("form:has(input[name=files])") && event.dataTransfer?.types.includes("Files")) event.preventDefault();
  });

  document.addEventListener("change", (event) => {
    const field = event.target;
    if (!(field instanceof HTMLInputElement) || field.type !== "file") return;
    const most = Number(field.dataset.most);
    const isEach = most >= 1e6, sizes = [...field.files].map((file) => file.size);
    const size = isEach ? Math.max(0, ...sizes) : sizes.reduce((sum, one) => sum + one, 0);
    const told = (bytes) => (isEach ? `${(bytes / 1e6).toFixed(1)} MB` : `${Math.ceil(bytes / 1000)} kB`);
    field.setCustomValidity(size > most ? `Too large: ${told(size)}. The limit is ${told(most)}${isEach ? " for each file" : ""}.` : "");
    field.reportValidity();
  });

  // How far the files of a form are: `fetch` does not tell, and a page that is being left shows nothing.
  const hasFiles = (form) => form instanceof HTMLFormElement && form.matches("[data-compose]") && Boolean(form.elements.files?.files.length);
  const upload = (form, url, { headers = {}, body, signal } = {}) => new Promise((resolve, reject) => {
    const line = document.createElement("p"), bar = document.createElement("progress"), text = document.createElement("span");
    line.className = "uploading";
    bar.setAttribute("aria-label", "Upload");
    text.textContent = "Sending…";
    line.append(bar, text);
    form.querySelector(".uploading")?.remove(); // of an upload that was interrupted
    form.append(line);
    const request = new XMLHttpRequest(), mega = (bytes) => (bytes / 1e6).toFixed(1);
    request.open("POST", url);
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    request.upload.addEventListener("progress", ({ loaded, total }) => {
      bar.max = total;
      bar.value = loaded;
      text.textContent = loaded < total ? `${mega(loaded)} of ${mega(total)} MB` : "Sent. The files are being stored…";
    });
    request.addEventListener("loadend", () => {
      line.remove();
      if (request.status) resolve(request);
      else reject(new TypeError("the upload was interrupted"));
    });
    signal?.addEventListener("abort", () => request.abort());
    request.send(body);
  });
  document.addEventListener("htmx:config:request", ({ detail: { ctx } }) => {
    const form = ctx.sourceElement;
    if (hasFiles(form)) ctx.fetch = async (url, options) => {
      const done = await upload(form, url, options), lines = done.getAllResponseHeaders().trim().split("\r\n");
      const headers = lines.map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1).trim()]);
      return new Response(done.responseText || null, { status: done.status, headers });
    };
  });
  document.addEventListener("submit", async (event) => { // of a form that opens another page
    const form = event.target;
    if (event.defaultPrevented || !hasFiles(form) || form.hasAttribute("hx-post")) return;
    event.preventDefault();
    const body = new FormData(form, event.submitter), buttons = form.querySelectorAll("button");
    for (const button of buttons) button.disabled = true;
    try {
      const { status, responseURL, responseText } = await upload(form, form.action, { body });
      if (status >= 500) throw new TypeError("the service stops"); // the form stays as it is, with its ids
      if (new URL(responseURL).pathname !== new URL(form.action).pathname) return location.assign(responseURL);
      const page = new DOMParser().parseFromString(responseText, "text/html").querySelector("main");
      if (!page) throw new TypeError("no page"); // of a proxy, for which the files are too large
      document.querySelector("main").replaceWith(page); // the form again, with the reason
      scrollTo(0, 0);
    } catch {
      const line = document.createElement("p");
      line.className = "uploading bad";
      line.setAttribute("role", "alert");
      line.textContent = "The upload was interrupted. Send it again.";
      form.append(line);
    }
    for (const button of buttons) button.disabled = false;
  });

  // The end of the conversation stays in sight for who looks at it.
  const turns = document.getElementById("turns");
  if (!turns || !document.getElementById("live")) return;
  const end = document.getElementById("end"); // on a phone, what is about the conversation stands below it
  const toEnd = () => end.scrollIntoView({ block: "end", behavior: "instant" });
  let isAtEnd = true, last = scrollY;
  if (location.hash === "" || location.hash === "#end") toEnd();
  addEventListener("scroll", () => {
    if (end.getBoundingClientRect().top <= innerHeight + 80) isAtEnd = true;
    else if (scrollY < last - 2) isAtEnd = false; // somebody looks further up; what grows or shrinks does not scroll up so
    last = scrollY;
  }, { passive: true });
  document.addEventListener("submit", () => { isAtEnd = true; });
  new ResizeObserver(() => { if (isAtEnd) toEnd(); }).observe(turns.parentElement);
})();
