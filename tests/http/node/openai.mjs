// A program with OpenAI's client: a chat whose page edits and goes back, and responses that follow one another.
// node openai.mjs URL SESSION '{"model": "...", "chats": [["u", "a", "u"], ...], "responses": [["text", INDEX or null], ...]}'
import OpenAI from "openai";

const [url, session_id, plan] = process.argv.slice(2);
const { model, chats = [], responses = [] } = JSON.parse(plan);
const client = new OpenAI({ baseURL: `${url}/openai/v1`, apiKey: "none", maxRetries: 0 });

for (const texts of chats) {
  const messages = texts.map((content, index) => ({ role: index % 2 ? "assistant" : "user", content }));
  const found = await client.chat.completions.create({ model, messages, metadata: { session_id } });
  console.log(JSON.stringify(found.choices[0].message.content));
}
const made = [];
for (const [input, before] of responses) {
  const previous_response_id = before === null ? undefined : made[before].id;
  made.push(await client.responses.create({ model, input, previous_response_id }));
  console.log(JSON.stringify({ id: made.at(-1).id, text: made.at(-1).output_text }));
}
