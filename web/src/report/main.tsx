// The report: reads the data in the page, or follows a server, and shows the drawing.
import { render } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import '../common/theme.css';
import '../common/graph.css';
import './report.css';
import { Clients } from './clients';
import type { Data } from './data';
import { dataOf, follow, type Live } from './live';
import { Page } from './page';
import { language, setLanguage } from './texts';

const data = JSON.parse(document.getElementById('data')!.textContent!) as Data;

function LivePage() {
  const [live, setLive] = useState<Live>({ clients: [], connected: false, full: false });
  const [chosen, choose] = useState('');
  useEffect(() => follow(setLive), []);
  const client = live.clients.find((c) => c.who === chosen) ?? live.clients[live.clients.length - 1];
  return <Page data={client ? dataOf(client, data) : data} live={client} aside={<Clients live={live} chosen={client?.who ?? ''} choose={choose} />} />;
}

setLanguage(language()); // the page's language, for screen readers and fonts
render(data.live ? <LivePage /> : <Page data={data} />, document.getElementById('app')!);
