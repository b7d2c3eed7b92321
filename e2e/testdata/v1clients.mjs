// Drives /v1 with the unmodified packages openai and ai, and prints what they got as JSON.
import OpenAI from 'openai';
import { createOpenAI } from '@ai-sdk/openai';
import { generateText, streamText } from 'ai';

const baseURL = process.env.BASE_URL;
const apiKey = process.env.API_KEY;
const client = new OpenAI({ baseURL, apiKey });
const inChat = { headers: { 'Lilac-Session': 'chat' } };
const out = {};

out.models = (await client.models.list()).data.map((m) => m.id);

const first = await client.chat.completions.create({
  model: 'lilac', user: 'ann', messages: [{ role: 'system', content: 'Be brief.' }, { role: 'user', content: 'one' }],
}, inChat);
out.chat = first.choices[0].message.content;
out.usage = first.usage.total_tokens;

const streamed = await client.chat.completions.create({
  model: 'lilac', user: 'ann', stream: true, stream_options: { include_usage: true },
  messages: [{ role: 'user', content: 'one' }, { role: 'assistant', content: out.chat }, { role: 'user', content: 'two' }],
}, inChat);
out.stream = '';
for await (const chunk of streamed) {
  out.stream += chunk.choices[0]?.delta?.content ?? '';
  if (chunk.usage) out.streamUsage = chunk.usage.total_tokens;
}

const response = await client.responses.create({ model: 'lilac', input: 'three' });
out.response = response.output_text;
out.retrieved = (await client.responses.retrieve(response.id)).output_text;
const format = { type: 'json_schema', name: 'person', schema: { type: 'object', title: 'Person' } };
out.json = (await client.responses.parse({ model: 'lilac', input: 'who', text: { format } })).output_text;
const inJSON = await client.chat.completions.parse({
  model: 'lilac', messages: [{ role: 'user', content: 'who' }], response_format: { type: 'json_schema', json_schema: format },
});
out.chatJSON = inJSON.choices[0].message.content;
const events = await client.responses.create({ model: 'lilac', input: 'four', previous_response_id: response.id, stream: true });
out.events = [];
out.responseStream = '';
for await (const event of events) {
  if (out.events.at(-1) !== event.type) out.events.push(event.type);
  if (event.type === 'response.output_text.delta') out.responseStream += event.delta;
}

try {
  await client.chat.completions.create({ model: 'gpt-none', messages: [{ role: 'user', content: 'x' }] });
} catch (err) {
  out.error = [err.status, err.code, err.constructor.name];
}

const provider = createOpenAI({ baseURL, apiKey });
out.ai = (await generateText({ model: provider.chat('lilac'), prompt: 'five' })).text;
out.aiResponses = (await generateText({ model: provider.responses('lilac'), prompt: 'six' })).text;
out.aiStream = '';
for await (const piece of streamText({ model: provider.responses('lilac'), prompt: 'seven' }).textStream) out.aiStream += piece;

console.log(JSON.stringify(out));
