// See compare.sh, which starts this.
const { execFileSync } = require('child_process');
const fs = require('fs');
const { Tiktoken, get_encoding } = require('tiktoken');
const { Tokenizer } = require('tokenizers');

const [bench, data] = process.argv.slice(2);
const prose = `${data}/text/frankenstein.txt`;
const text = fs.readFileSync(prose, 'utf8');
const megabytes = Buffer.byteLength(text) / 1e6;
const RUNS = 7;

// The rate of the best run, in MB/s, and the number of tokens.
async function measure(encode) {
  let best = Infinity;
  let count = 0;
  for (let run = 0; run < RUNS; ++run) {
    const start = process.hrtime.bigint();
    count = await encode();
    best = Math.min(best, Number(process.hrtime.bigint() - start) / 1e9);
  }
  return { rate: megabytes / best, count };
}

function ours(folder) {
  const output = execFileSync(bench, [folder, prose], { encoding: 'utf8' });
  const match = output.match(/^prose\s+(\d+) tokens\s+encode\s+([\d.]+) MB\/s/m);
  return { count: Number(match[1]), rate: Number(match[2]) };
}

// Llama 3's ranks and expression for the tiktoken package, which does not bring them along.
function llama3() {
  const pattern = JSON.parse(fs.readFileSync(`${data}/tokenizers/llama3/tokenizer.json`, 'utf8'))
    .pre_tokenizer.pretokenizers[0].pattern.Regex;
  const lines = fs.readFileSync(`${data}/tokenizers/llama3/tokenizer.model`, 'utf8').trim().split('\n');
  return new Tiktoken(`! 0 ${lines.map((line) => line.split(' ')[0]).join(' ')}`, {}, pattern);
}

(async () => {
  for (const name of ['gpt2', 'llama3']) {
    const folder = `${data}/tokenizers/${name}`;
    const rust = Tokenizer.fromString(fs.readFileSync(`${folder}/tokenizer.json`, 'utf8'));
    const results = {
      sluice: ours(folder),
      tiktoken: await measure(((encoding) => () => encoding.encode_ordinary(text).length)(
        name === 'gpt2' ? get_encoding('gpt2') : llama3())),
      tokenizers: await measure(async () =>
        (await rust.encode(text, null, { addSpecialTokens: false })).getLength()),
    };
    for (const [library, { rate, count }] of Object.entries(results)) {
      const ratio = (results.sluice.rate / rate).toFixed(1);
      console.log(`${name.padEnd(7)} ${library.padEnd(11)} ${rate.toFixed(2).padStart(8)} MB/s ` +
        `${String(count).padStart(8)} tokens   sluice is ${ratio} times as fast`);
      if (count !== results.sluice.count) throw new Error(`${library} gives other tokens`);
    }
  }
})();
