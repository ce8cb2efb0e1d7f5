// A user of AG-UI: sends messages, answers each interrupt with the next answer, and prints what the client then knows.
// With "reload" the page is loaded again at the end: another client of the thread, without messages, gives the answers.
// node agui.mjs URL THREAD '{"sent": [...], "answers": [...], "cut": false, "context": [...], "tools": [...], "reload": false}'
import { HttpAgent } from "@ag-ui/client";

const [url, threadId, plan] = process.argv.slice(2);
const { sent, answers = [], cut = false, context = [], tools = [], reload = false } = JSON.parse(plan);
let agent = new HttpAgent({ url, threadId });
const outcomes = [];
const seen = [];
let run = 0;

async function read(resume, runId = `run-${++run}`) {
  await agent.runAgent({ runId, context, tools, ...(resume ? { resume } : {}) }, {
    onEvent: ({ event }) => { seen.push(event.type); },
    onTextMessageContentEvent: ({ event }) => {
      if (cut && outcomes.length === 0 && run === 1) {
        console.log(JSON.stringify({ cut: event.delta }));
        agent.abortRun();
        run++;
      }
    },
    onRunFinishedEvent: ({ event }) => { outcomes.push(event.outcome); },
    onRunErrorEvent: ({ event }) => { outcomes.push({ type: "error", message: event.message, code: event.code }); },
  }).catch((error) => {
    if (!cut || run !== 2) throw error;
  });
}

async function answer() {
  while (agent.pendingInterrupts.length > 0 && answers.length > 0) {
    const resume = agent.pendingInterrupts.map((interrupt) => ({ interruptId: interrupt.id, ...answers.shift() }));
    await read(resume);
  }
}

for (const [index, content] of sent.entries()) {
  agent.addMessage({ id: `m-${index + 1}`, role: "user", content });
  await read();
  if (cut && index === 0) await read(undefined, "run-1"); // the same run id again
  if (!reload) await answer();
}
const before = agent.messages;
if (reload) {
  agent = new HttpAgent({ url, threadId });
  await read();
  await answer();
}
console.log(JSON.stringify({ messages: agent.messages, state: agent.state, outcomes, seen, before }));
