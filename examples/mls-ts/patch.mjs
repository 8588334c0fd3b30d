// Mends a fault of ts-mls 1.6.4 in node_modules; `npm ci` and `npm run build` run it.
//
// Who joins a group verifies its tree. RFC 9420, section 12.4.3.1, wants each unmerged leaf
// of a node to be listed by the nodes between the leaf and that node. ts-mls compares whole
// lists, and also with nodes above. So joining fails with "non-blank intermediate node must
// list leaf node in its unmerged_leaves", sooner or later, in groups of five or more.
import { readFileSync, writeFileSync } from 'node:fs'

const file = new URL('node_modules/ts-mls/dist/src/clientState.js', import.meta.url)
const faults = [
  ['for (const parentIdx of dp) {', 'for (const parentIdx of dp.slice(0, dp.indexOf(toNodeIndex(i)))) {'],
  ['!arraysEqual(dpNode.parent.unmergedLeaves, n.parent.unmergedLeaves)', '!dpNode.parent.unmergedLeaves.includes(unmergedLeaf)'],
]

let source = readFileSync(file, 'utf8')
for (const [fault, mended] of faults) {
  const times = source.split(fault).length - 1
  if (times === 0 && source.includes(mended)) continue
  if (times !== 1) throw new Error('this is not ts-mls 1.6.4: see whether it still has the fault')
  source = source.replace(fault, mended)
}
writeFileSync(file, source)
