// A text from Go, in the reader's language. Without a translation it stays English, and says so.

interface Props {
  text: string; // as Go has it
  translation: string | undefined;
  note: string; // says that the text is English
}

export function Quoted({ text, translation, note }: Props) {
  if (translation !== undefined) return <>{translation}</>;
  return <><span lang="en">{text}</span><small class="english">{note}</small></>;
}
