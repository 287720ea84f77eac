package verbs

import (
	"net"
	"sync"
	"syscall"
)

// paper is a provider on paper: its objects do nothing but count, block and
// complete as a test tells them to.
type paper struct {
	mu     sync.Mutex
	live   int // objects made and not closed
	next   uint32
	cq     *paperCQ // the last one made
	refuse error    // what the next making or modifying answers
}

func newPaperDevice() (*Device, *paper) {
	p := &paper{}
	d := &Device{p: &paperDevice{paper: p, closed: make(chan struct{}), events: make(chan AsyncEvent, 8)}, info: DeviceInfo{Name: "paper0"}, events: &listeners{}}
	d.kind, d.device = "device", "paper0"
	d.watchLeak()
	return d, p
}

// made counts a new object, or refuses it.
func (p *paper) made() (uint32, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.refuse; err != nil {
		p.refuse = nil
		return 0, err
	}
	p.live++
	p.next++
	return p.next, nil
}

func (p *paper) gone() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.live--
	return nil
}

func (p *paper) living() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.live
}

type paperDevice struct {
	*paper
	closed chan struct{}
	events chan AsyncEvent
}

func (d *paperDevice) QueryDevice() (DeviceAttr, error) {
	return DeviceAttr{PhysPortCnt: 1, MaxQPRdAtom: 16, MaxQPInitRdAtom: 16}, nil
}

func (d *paperDevice) QueryPort(port uint8) (PortAttr, error) {
	if port != 1 {
		return PortAttr{}, syscall.EINVAL
	}
	return PortAttr{State: PortActive, MaxMTU: 5, ActiveMTU: 3, LinkLayer: LinkEthernet, PKeyTableLen: 1}, nil
}

func (d *paperDevice) QueryGIDTable() ([]GIDEntry, error) { return rxeTable, nil }

func (d *paperDevice) QueryPKey(port uint8, index int) (uint16, error) { return 0xffff, nil }

func (d *paperDevice) AllocPD() (PDProvider, error) {
	_, err := d.made()
	return &paperPD{paper: d.paper}, err
}

func (d *paperDevice) CreateCompChannel() (CompChannelProvider, error) {
	_, err := d.made()
	return &paperChannel{paper: d.paper}, err
}

func (d *paperDevice) CreateCQ(depth int, ch CompChannelProvider, _ int, wake func()) (CQProvider, error) {
	_, err := d.made()
	cq := &paperCQ{paper: d.paper, depth: depth, wake: wake}
	d.cq = cq
	return cq, err
}

func (d *paperDevice) NextEvent() (AsyncEvent, error) {
	select {
	case e := <-d.events:
		return e, nil
	case <-d.closed:
		return AsyncEvent{}, net.ErrClosed
	}
}

func (d *paperDevice) Close() error {
	close(d.closed)
	return nil
}

type paperPD struct{ *paper }

func (p *paperPD) RegMR([]byte, uint64, Access) (MRProvider, error) {
	key, err := p.made()
	return &paperMR{paper: p.paper, key: key}, err
}

func (p *paperPD) AllocMW(MWType) (MWProvider, error) {
	key, err := p.made()
	return &paperMR{paper: p.paper, key: key << 8}, err
}

func (p *paperPD) CreateAH(AHAttr) (AHProvider, error) {
	_, err := p.made()
	return &paperObject{p.paper}, err
}

func (p *paperPD) CreateQP(init QPInitProvider) (QPProvider, error) {
	qpn, err := p.made()
	return &paperQP{paper: p.paper, qpn: qpn, cap: init.Cap}, err
}

func (p *paperPD) Close() error { return p.gone() }

type paperObject struct{ *paper }

func (o *paperObject) Close() error { return o.gone() }

type paperMR struct {
	*paper
	key uint32
}

func (m *paperMR) LKey() uint32 { return m.key }
func (m *paperMR) RKey() uint32 { return m.key }
func (m *paperMR) Close() error { return m.gone() }

type paperChannel struct{ *paper }

func (c *paperChannel) Close() error { return c.gone() }

// paperCQ completes what complete is told, and sends an event if it is armed.
type paperCQ struct {
	*paper
	depth int
	wake  func()

	mu     sync.Mutex
	ready  []WC
	armed  bool
	broken error // what Arm answers
}

func (c *paperCQ) complete(wcs ...WC) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ready = append(c.ready, wcs...)
	if c.armed {
		c.armed = false
		c.wake()
	}
}

func (c *paperCQ) Depth() int { return c.depth }

func (c *paperCQ) Poll(wcs []WC) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := copy(wcs, c.ready)
	c.ready = c.ready[n:]
	return n, nil
}

func (c *paperCQ) Arm(bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed = true
	return c.broken
}

func (c *paperCQ) Close() error { return c.gone() }

type paperQP struct {
	*paper
	qpn   uint32
	cap   QPCap
	state QPState
}

func (q *paperQP) QPN() uint32 { return q.qpn }
func (q *paperQP) Cap() QPCap  { return q.cap }

func (q *paperQP) Modify(attr *QPAttr, mask QPAttrMask) error {
	if err := q.refuse; err != nil {
		q.refuse = nil
		return err
	}
	if mask&1 != 0 {
		q.state = attr.State
	}
	return nil
}

func (q *paperQP) Query(QPAttrMask) (QPAttr, error)   { return QPAttr{State: q.state}, nil }
func (q *paperQP) PostSend(wrs []SendWR) (int, error) { return len(wrs), nil }
func (q *paperQP) PostRecv(wrs []RecvWR) (int, error) { return len(wrs), nil }
func (q *paperQP) Close() error                       { return q.gone() }

func (q *paperQP) BindMW(uint64, SendFlags, *MWBind) error { return nil }
