// A page with `useChat` of the AI SDK, less React: does one thing after the other, and prints the chat after each.
// node chat.mjs URL CHAT '{"steps": [["send", "wipe"], ["decide", 0, true], ["edit", "m-1", "hello"], ["regenerate"], ["stop"]], "headers": {}, "load": false}'
import {
  AbstractChat, DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses, validateUIMessages,
} from "ai";

const [api, id, plan] = process.argv.slice(2);
const { steps, headers = {}, load = false } = JSON.parse(plan);
// As a page that is loaded again: `useChat({ id, messages, resume: true })`.
const loaded = load ? await (await fetch(`${api}/${id}/messages`, { headers })).json() : [];
const messages = loaded.length > 0 ? await validateUIMessages({ messages: loaded }) : [];

class State {
  status = "ready";
  error = undefined;
  messages = [];
  pushMessage = (message) => { this.messages = [...this.messages, message]; };
  popMessage = () => { this.messages = this.messages.slice(0, -1); };
  replaceMessage = (index, message) => { this.messages = this.messages.with(index, structuredClone(message)); };
  snapshot = (thing) => structuredClone(thing);
}
class Chat extends AbstractChat {}
const state = new State();
state.messages = messages;

let count = messages.filter((message) => message.role === "user").length, requests = 0;
const chat = new Chat({
  id,
  state,
  transport: new DefaultChatTransport({
    api,
    headers,
    fetch: (...given) => { requests += 1; return fetch(...given); },
  }),
  sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
});
const cards = () => chat.messages.flatMap((message) => message.parts).filter((part) => part.approval);
const settled = async () => {
  do await new Promise((then) => setTimeout(then, 20)); while (["submitted", "streaming"].includes(chat.status));
};
const does = {
  send: (text) => chat.sendMessage({ id: `m-${++count}`, role: "user", parts: [{ type: "text", text }] }),
  decide: (card, approved) => chat.addToolApprovalResponse({ id: cards().at(card).approval.id, approved }),
  edit: (messageId, text) => chat.sendMessage({ messageId, text }),
  regenerate: () => chat.regenerate(),
  resume: () => chat.resumeStream(),
  look: () => {},
  begin: (text) => { does.send(text); },
  until: async (text) => { while (!JSON.stringify(chat.messages).includes(text)) await new Promise((then) => setTimeout(then, 20)); },
  stop: () => chat.stop(),
};
for (const [name, ...given] of steps) {
  await does[name](...given);
  if (!["begin", "until"].includes(name)) await settled();
  console.log(JSON.stringify({ messages: chat.messages, status: chat.status, error: chat.error?.message, requests }));
}
process.exit(0);
