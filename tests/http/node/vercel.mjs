// A user of the AI SDK: sends messages, decides on each call that asks for it, and prints the chat.
// node vercel.mjs URL CHAT '{"sent": [...], "approved": [...], "outputs": [...], "cut": false}'
import { DefaultChatTransport, readUIMessageStream } from "ai";

const [api, chatId, plan] = process.argv.slice(2);
const { sent, approved = [], outputs = [], cut = false } = JSON.parse(plan);
const transport = new DefaultChatTransport({ api });
const messages = [];
const statuses = [];

async function take(stream, { stopAt } = {}) {
  const last = messages.at(-1);
  const message = last.role === "assistant" ? structuredClone(last) : undefined;
  let newest;
  const seen = new TransformStream({
    transform(chunk, controller) {
      if (chunk.type === "data-status") statuses.push(chunk.data.status);
      controller.enqueue(chunk);
    },
  });
  for await (const each of readUIMessageStream({ message, stream: stream.pipeThrough(seen), terminateOnError: true })) {
    newest = structuredClone(each);
    if (stopAt && each.parts.some((part) => part.type === "text" && part.text === stopAt)) break;
  }
  if (!newest) return;
  if (last.role === "assistant" && last.id === newest.id) messages.pop();
  messages.push(newest);
}

const send = (options = {}) => transport.sendMessages({ chatId, messages, trigger: "submit-message", ...options });
const calls = (state) => (messages.at(-1).parts ?? []).filter((part) => part.state === state);

for (const [index, each] of sent.entries()) {
  const parts = typeof each === "string" ? [{ type: "text", text: each }] : each;
  messages.push({ id: `m-${index + 1}`, role: "user", parts });
  if (cut && index === 0) {
    const abort = new AbortController();
    await take(await send({ abortSignal: abort.signal }), { stopAt: cut });
    console.log(JSON.stringify({ cut: messages.pop() }));
    abort.abort();
    const again = await transport.reconnectToStream({ chatId });
    await take(again);
    continue;
  }
  await take(await send());
  while (approved.length > 0 && calls("approval-requested").length > 0) {
    for (const part of calls("approval-requested")) {
      part.state = "approval-responded"; // as `addToolApprovalResponse` does
      part.approval = { id: part.approval.id, ...approved.shift() };
    }
    await take(await send({ messageId: messages.at(-1).id }));
  }
  while (outputs.length > 0 && calls("input-available").length > 0) {
    for (const part of calls("input-available")) {
      part.state = "output-available"; // as `addToolOutput` does
      part.output = outputs.shift();
    }
    await take(await send({ messageId: messages.at(-1).id }));
  }
}
console.log(JSON.stringify({ messages, statuses }));
