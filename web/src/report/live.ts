// The events of a server's clients, as the server sends them (cmd/internal/view/report/live.go).
import type { Capture, Data, Event, Packet } from './data';

/** A client of the server. */
export interface Client {
  who: string;
  peer: string;
  job: string;
  state: 'running' | 'done' | 'failed';
  error?: string;
  dropped: number;
  events: Event[];
  packets: Packet[];
  shapes: Data['shapes'];
  captures: Capture[];
}

/** A message of the server: what is new of a client. */
interface News {
  who: string;
  begin?: boolean; // forget what was known of this client
  gone?: boolean; // the server has forgotten it
  peer?: string;
  job?: string;
  state?: Client['state'];
  error?: string;
  dropped?: number;
  events?: Event[]; // besides those before
  packets?: Packet[]; // all, with their shapes and captures
  shapes?: Data['shapes'];
  captures?: Capture[];
}

export interface Live {
  clients: Client[];
  connected: boolean;
  full: boolean;
}

/** Follows the server. changed is called at most ten times per second. */
export function follow(changed: (live: Live) => void) {
  const clients = new Map<string, Client>();
  let connected = false;
  let full = false;
  let timer = 0;
  const tell = () => {
    if (timer) return;
    timer = window.setTimeout(() => {
      timer = 0;
      changed({ clients: [...clients.values()], connected, full });
    }, 100);
  };
  const source = new EventSource('events');
  source.onopen = () => {
    connected = true;
    full = false;
    clients.clear(); // the server sends all again
    tell();
  };
  source.onerror = () => {
    connected = false;
    full = source.readyState === EventSource.CLOSED; // refused
    if (full) window.setTimeout(() => follow(changed), 5000);
    tell();
  };
  source.onmessage = (message) => {
    const news = JSON.parse(String(message.data)) as News;
    if (news.gone) {
      clients.delete(news.who);
      return tell();
    }
    let c = clients.get(news.who);
    if (news.begin) {
      c = { who: news.who, peer: '', job: '', state: 'running', dropped: 0, events: [], packets: [], shapes: [], captures: [] };
      clients.set(news.who, c);
    }
    if (!c) return; // packets of a client that is gone
    const { events, begin: _, who: __, ...rest } = news;
    Object.assign(c, rest);
    if (events) c.events = c.events.concat(events);
    tell();
  };
}

/** The data of one client, to be drawn as a run of which only the server's part is known. */
export function dataOf(c: Client, all: Data): Data {
  const part = { present: false, events: 0, dropped: 0 };
  const { events, packets, shapes, captures } = c;
  return { ...all, events, packets, shapes, captures, record: { job: c.job, done: c.state === 'done', error: c.error, client: part, server: { ...part, present: true, dropped: c.dropped } } };
}
