// What a member must not forget: private keys, the state of the group, how far it has read.
import { open, readFile, rename } from 'node:fs/promises'
import path from 'node:path'
import type { OwnKeyPackage } from './keypackages.ts'
import type { Pending } from './session.ts'

export interface Saved {
  keyPackages: OwnKeyPackage[]
  /** The state of the MLS group. */
  session?: string
  /** The own commit that is not applied yet. */
  pending?: Pending & { added: string[]; removed: string[]; accepted?: boolean }
  /** The id of a Welcome that is not acknowledged yet. */
  welcome?: string
  /** The last messages of the inbox that were handled, oldest first. */
  read?: string[]
  /** Leaves in the MLS group that no member had when this one saw them first, by handle. */
  strangers?: string[]
}

/** Keeps what was saved last. save returns when it is on stable storage. */
export interface Store {
  load(): Promise<Saved | undefined>
  save(saved: Saved): Promise<void>
}

/** Keeps everything in one file, which is replaced as a whole. It has private keys. */
export class FileStore implements Store {
  private readonly file: string

  constructor(file: string) {
    this.file = file
  }

  async load(): Promise<Saved | undefined> {
    try {
      return JSON.parse(await readFile(this.file, 'utf8'))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
      throw error
    }
  }

  async save(saved: Saved): Promise<void> {
    const next = await open(`${this.file}.next`, 'w', 0o600)
    try {
      await next.writeFile(JSON.stringify(saved))
      await next.sync()
    } finally {
      await next.close()
    }
    await rename(`${this.file}.next`, this.file)
    const folder = await open(path.dirname(this.file)) // which has the name: without this a crash of the machine may bring back the former file
    try {
      await folder.sync()
    } finally {
      await folder.close()
    }
  }
}

/** Forgets everything when the program ends. */
export class MemoryStore implements Store {
  private saved: Saved | undefined

  load = async (): Promise<Saved | undefined> => structuredClone(this.saved)

  save = async (saved: Saved): Promise<void> => {
    this.saved = structuredClone(saved)
  }
}
