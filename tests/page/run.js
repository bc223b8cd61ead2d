// Runs the test files one after another (each has a server and a browser of its own, and the latency test
// wants the machine to itself). Arguments: parts of file names; none means all. Ends with 1 if any failed.

import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const here = path.dirname(fileURLToPath(import.meta.url));
const wanted = process.argv.slice(2);
const files = readdirSync(here).filter((f) => f.endsWith('.test.js') && (wanted.length === 0 || wanted.some((w) => f.includes(w))));
let failed = 0;
for (const file of files) {
  console.log(`== ${file}`);
  const result = spawnSync(process.execPath, ['--test', file], { cwd: here, stdio: 'inherit', timeout: 15 * 60_000 });
  if (result.status !== 0) failed++;
}
if (files.length === 0) console.log(`no test file matches ${wanted.join(' ')}`);
process.exit(failed || files.length === 0 ? 1 : 0);
