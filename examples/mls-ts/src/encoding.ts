export const base64url = (data: Uint8Array): string => Buffer.from(data).toString('base64url')

export const bytes = (text: string): Uint8Array => new Uint8Array(Buffer.from(text, 'base64url'))

export const sameText = (a: Uint8Array, b: string): boolean => Buffer.from(a).toString() === b
