// The dialog of the session: a new bench, save and load, the link, and the session as a program.
import { useRef, useState } from 'preact/hooks';
import { number } from '../common/format';
import { t } from '../texts';
import { closeDialog, openDialog, SheetHead } from './dialog';
import { Choice, Row, Text } from './fields';
import { json } from './engine';
import { openPoster } from './poster';
import { problemText } from './refusal';
import { file, link, open, openBench, program, record } from './store';

export function openSession() {
  openDialog(<SessionSheet key={`session-${performance.now()}`} />);
}

export function openProgram(language: 'c' | 'go') {
  openDialog(<ProgramSheet key={`program-${language}`} language={language} />);
}

function SessionSheet() {
  const [said, setSaid] = useState('');
  const [problem, setProblem] = useState('');
  const [mtu, setMtu] = useState('1024');
  const [delay, setDelay] = useState('10000');
  const [seed, setSeed] = useState('1');
  const input = useRef<HTMLInputElement>(null);
  const attempt = (f: () => void) => {
    setProblem('');
    try {
      f();
    } catch (error) {
      setProblem(problemText(error));
    }
  };
  const address = () => `${location.href.split('#')[0]}#${link()}`;
  const copied = location.protocol === 'file:' ? 'ui.copied.disk' : 'ui.copied';
  const load = async (chosen: File | undefined) => {
    if (!chosen) return;
    const text = await chosen.text();
    attempt(() => { open(text); closeDialog(); });
  };
  const bench = () => attempt(() => {
    openBench(json({ mtu: Number(mtu), delay_ns: Number(number(delay)), seed: Number(number(seed)) }));
    closeDialog();
  });
  return (
    <div>
      <SheetHead title={t('ui.session')} />
      {problem && <p class="problem" role="alert" data-test="problem">{problem}</p>}
      <section class="sheet-part">
        <h3>{t('ui.session.share')}</h3>
        <p class="small muted">{t('ui.session.share.about')}</p>
        <div class="buttons">
          <button type="button" class="primary" data-test="session.link" onClick={() => attempt(() => { void copy(address()).then((ok) => setSaid(t(ok ? copied : 'ui.copy-failed'))); })}>{t('ui.session.link')}</button>
          <button type="button" data-test="session.save" onClick={() => attempt(() => download('session.json', JSON.stringify(file(), null, 1)))}>{t('ui.session.save')}</button>
          <button type="button" data-test="session.load" onClick={() => input.current?.click()}>{t('ui.session.load')}</button>
          <input ref={input} type="file" class="hidden" tabIndex={-1} aria-hidden="true" data-test="session.file" accept=".json,application/json" onChange={(event) => void load(event.currentTarget.files?.[0])} />
        </div>
        <p class="small good" role="status">{said}</p>
      </section>
      <section class="sheet-part">
        <h3>{t('ui.session.export')}</h3>
        <p class="small muted">{t('ui.session.export.about')}</p>
        <div class="buttons">
          <button type="button" data-test="export.c" onClick={() => openProgram('c')}>C</button>
          <button type="button" data-test="export.go" onClick={() => openProgram('go')}>Go</button>
          <button type="button" data-test="session.record" onClick={() => attempt(() => download('record.jsonl', record()))}>{t('ui.session.record')}</button>
          <button type="button" data-test="session.poster" onClick={openPoster}>{t('ui.poster')}</button>
        </div>
      </section>
      <section class="sheet-part">
        <h3>{t('ui.session.new')}</h3>
        <Row>
          <Choice test="f.mtu" label={t('ui.session.mtu')} value={mtu} onChange={setMtu} options={['256', '512', '1024', '2048', '4096'].map((value) => ({ value }))} />
          <Text mono test="f.delay" label={t('ui.session.delay')} value={delay} onChange={setDelay} />
          <Text mono test="f.seed" label={t('ui.session.seed')} value={seed} onChange={setSeed} />
        </Row>
        <button type="button" data-test="session.new" onClick={bench}>{t('ui.session.new')}</button>
      </section>
    </div>
  );
}

function ProgramSheet({ language }: { language: 'c' | 'go' }) {
  const [said, setSaid] = useState('');
  let text = '';
  let problem = '';
  try {
    text = program(language);
  } catch (error) {
    problem = problemText(error);
  }
  return (
    <div>
      <SheetHead title={t('ui.program', { language: language === 'c' ? 'C' : 'Go' })} />
      {problem
        ? <p class="problem" role="alert" data-test="problem">{problem}</p>
        : <>
            <p class="lead">{t(language === 'c' ? 'ui.program.c' : 'ui.program.go')}</p>
            <div class="buttons">
              <button type="button" class="primary" data-test="program.copy" onClick={() => void copy(text).then((ok) => setSaid(t(ok ? 'ui.copied' : 'ui.copy-failed')))}>{t('ui.copy')}</button>
              <button type="button" data-test="program.save" onClick={() => download(language === 'c' ? 'session.c' : 'session.go', text)}>{t('ui.download')}</button>
              <span class="small good" role="status">{said}</span>
            </div>
            <pre class="program" data-test="program" tabIndex={0} aria-label={t('ui.program', { language })}>{text}</pre>
          </>}
    </div>
  );
}

async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false; // the browser forbids it
  }
}

/** Lets the browser save a text as a file. */
export function download(name: string, text: string) {
  const a = document.createElement('a');
  a.href = URL.createObjectURL(new Blob([text], { type: 'text/plain' }));
  a.download = name;
  a.click();
  URL.revokeObjectURL(a.href);
}
