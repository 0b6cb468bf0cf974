// A small MCP client for the end-to-end tests, built on the TypeScript SDK.
//
//	node client.mjs '[{"op":"listTools"}]' -- COMMAND ARG…
//	node client.mjs -- COMMAND ARG…            the steps come from standard input
//
// It starts COMMAND as an MCP server over stdio, runs the steps in order and prints one JSON line per step:
//
//	{"step":0,"op":"callTool","result":{…}}
//	{"step":1,"op":"callTool","error":{"code":-32602,"message":"…","data":{…}}}
//
// Each step has an op and the members that the op needs; any step may carry "timeoutMs" (default 60000) and
// "progress": true, which adds the progress messages that arrived. The steps of an inner array run at the same time,
// and their lines come in the order of their answers; "step" counts all steps in the order of the text.
// Exit code: 0 every step was run (an answer that is an error counts as run), 1 no connection, 2 wrong usage.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const usage = "usage: node client.mjs [STEPS] -- COMMAND [ARG…]";

// ops maps a step's op to the SDK's call for it.
const ops = {
  serverInfo: (c) => ({
    server: c.getServerVersion(),
    capabilities: c.getServerCapabilities(),
    instructions: c.getInstructions(),
    protocolVersion: c.transport.protocolVersion,
  }),
  ping: (c, _, o) => c.ping(o),
  listTools: (c, s, o) => c.listTools(paged(s), o),
  callTool: (c, s, o) => c.callTool({ name: s.name, arguments: s.arguments, _meta: s.meta }, undefined, o),
  listResources: (c, s, o) => c.listResources(paged(s), o),
  listResourceTemplates: (c, s, o) => c.listResourceTemplates(paged(s), o),
  readResource: (c, s, o) => c.readResource({ uri: s.uri }, o),
  listPrompts: (c, s, o) => c.listPrompts(paged(s), o),
  getPrompt: (c, s, o) => c.getPrompt({ name: s.name, arguments: s.arguments }, o),
  sleep: (_, s) => new Promise((done) => setTimeout(() => done({}), s.ms)),
};

function paged(step) {
  return step.cursor === undefined ? undefined : { cursor: step.cursor };
}

async function run(client, step, number) {
  const line = { step: number, op: step.op };
  const options = { timeout: step.timeoutMs ?? 60000 };
  if (step.progress) {
    line.progress = [];
    options.onprogress = (p) => line.progress.push(p);
    options.resetTimeoutOnProgress = true;
  }
  try {
    if (!Object.hasOwn(ops, step.op)) throw new Error("unknown op");
    line.result = (await ops[step.op](client, step, options)) ?? {};
  } catch (e) {
    line.error = { code: e.code, message: e.message, data: e.data };
  }
  process.stdout.write(JSON.stringify(line) + "\n");
}

async function readAll(stream) {
  let text = "";
  for await (const chunk of stream.setEncoding("utf8")) text += chunk;
  return text;
}

async function main(argv) {
  const dash = argv.indexOf("--");
  const command = dash < 0 ? [] : argv.slice(dash + 1);
  if (dash < 0 || dash > 1 || command.length === 0) {
    process.stderr.write(usage + "\n");
    return 2;
  }
  let steps;
  try {
    steps = JSON.parse(dash === 1 ? argv[0] : await readAll(process.stdin));
    if (!Array.isArray(steps)) throw new Error("not an array");
  } catch (e) {
    process.stderr.write(`client: the steps: ${e.message}\n${usage}\n`);
    return 2;
  }
  // The whole environment is passed on: the tests point the command at its state directory with it.
  const transport = new StdioClientTransport({ command: command[0], args: command.slice(1), env: process.env });
  const client = new Client({ name: "counterfoil-e2e", version: "1" }, { capabilities: {} });
  // The SDK tells the transport the negotiated version; stdio has no use for it, the serverInfo op has.
  transport.setProtocolVersion = (v) => { transport.protocolVersion = v; };
  try {
    await client.connect(transport);
  } catch (e) {
    process.stderr.write(`client: no connection: ${e.message}\n`);
    return 1;
  }
  let number = 0;
  for (const group of steps) {
    await Promise.all([group].flat().map((step) => run(client, step, number++)));
  }
  await client.close();
  return 0;
}

process.exitCode = await main(process.argv.slice(2));
