// Text with paragraphs (parted by blank lines) and `code` between backticks.
import type { JSX } from 'preact';

export function Prose({ text, class: name = '' }: { text: string; class?: string }) {
  return (
    <div class={`prose ${name}`}>
      {text.split(/\n\n+/).map((paragraph) => (
        <p>{inline(paragraph)}</p>
      ))}
    </div>
  );
}

export function inline(text: string): (JSX.Element | string)[] {
  return text.split('`').map((part, i) => (i % 2 === 1 ? <code>{part}</code> : part));
}
