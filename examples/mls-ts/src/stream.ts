// The agent's stream tells when there is something to read.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Api } from './api.ts'

export interface StreamEvent {
  /** `message`, `status`, `group`, `heartbeat` or `gap`; `open` whenever the stream begins. */
  event: string
  data: string
}

/** What happens to the agent, until the signal. A stream that breaks off is opened again. */
export async function* streamEvents(api: Api, signal: AbortSignal): AsyncGenerator<StreamEvent> {
  while (!signal.aborted) {
    try {
      const answer = await api.stream(signal)
      yield { event: 'open', data: '' } // what was missed meanwhile can be read now
      if (answer.body) yield* parse(answer.body.pipeThrough(new TextDecoderStream()))
    } catch (broken) {
      if (!signal.aborted) console.error('the stream broke off:', broken)
    }
    await sleep(1000, undefined, { signal }).catch(() => {})
  }
}

/** Reads server-sent events as this server writes them. */
async function* parse(chunks: AsyncIterable<string>): AsyncGenerator<StreamEvent> {
  let text = ''
  for await (const chunk of chunks) {
    const blocks = (text + chunk).split('\n\n')
    text = blocks.pop() ?? ''
    for (const block of blocks) {
      const field = (name: string) => block.split('\n').find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2)
      const data = field('data')
      if (data !== undefined) yield { event: field('event') ?? 'message', data }
    }
  }
}
