package verbs

import (
	"net"
	"sync"
	"syscall"
	"time"
)

// paper is a provider without a device: its objects count, block and complete as a test asks them to.
type paper struct {
	mu     sync.Mutex
	live   int // open objects
	next   uint32
	cq     *paperCQ      // the last one made
	refuse error         // the error of the next call that makes or modifies something
	stall  chan struct{} // if not nil, Modify and CreateAH return when it is closed
	gids   []GIDEntry
	pkeys  []uint16
}

func newPaperDevice() (*Device, *paper) {
	p := &paper{gids: rxeTable, pkeys: []uint16{0xffff}}
	d := &Device{p: &paperDevice{paper: p, closed: make(chan struct{}), events: make(chan AsyncEvent, 8)}, info: DeviceInfo{Name: "paper0"}, events: &listeners{}}
	d.kind, d.device = "device", "paper0"
	d.watchLeak()
	return d, p
}

// made counts a new object, or returns the error in refuse.
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

// refusal returns the error in refuse, once.
func (p *paper) refusal() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.refuse
	p.refuse = nil
	return err
}

func (p *paper) stalls() {
	p.mu.Lock()
	stall := p.stall
	p.mu.Unlock()
	if stall != nil {
		<-stall
	}
}

func (p *paper) gone() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.live--
	return nil
}

func (p *paper) open() int {
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
	return PortAttr{State: PortActive, MaxMTU: 5, ActiveMTU: 3, LinkLayer: LinkEthernet, PKeyTableLen: len(d.pkeys)}, nil
}

func (d *paperDevice) QueryGIDTable() ([]GIDEntry, error) { return d.gids, nil }

func (d *paperDevice) QueryPKey(port uint8, index int) (uint16, error) { return d.pkeys[index], nil }

func (d *paperDevice) AllocPD() (ProviderPD, error) {
	_, err := d.made()
	return &paperPD{paper: d.paper}, err
}

func (d *paperDevice) CreateCompChannel() (ProviderCompChannel, error) {
	_, err := d.made()
	return &paperChannel{paper: d.paper}, err
}

func (d *paperDevice) CompVectors() int { return 2 }

func (d *paperDevice) CreateCQ(init ProviderCQInit) (ProviderCQ, error) {
	_, err := d.made()
	cq := &paperCQ{paper: d.paper, init: init, depth: init.Depth, wake: init.Wake}
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

func (p *paperPD) RegMR([]byte, uint64, Access) (ProviderMR, error) {
	key, err := p.made()
	return &paperMR{paper: p.paper, key: key}, err
}

func (p *paperPD) AllocMW(MWType) (ProviderMW, error) {
	key, err := p.made()
	return &paperMR{paper: p.paper, key: key << 8}, err
}

func (p *paperPD) CreateAH(AHAttr) (ProviderAH, error) {
	p.stalls()
	_, err := p.made()
	return &paperObject{p.paper}, err
}

func (p *paperPD) CreateSRQ(init SRQInit) (ProviderSRQ, error) {
	number, err := p.made()
	return &paperSRQ{paper: p.paper, attr: SRQAttr{MaxWR: init.MaxWR, MaxSGE: init.MaxSGE}, number: number}, err
}

func (p *paperPD) CreateQP(init ProviderQPInit) (ProviderQP, error) {
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

// paperCQ holds the completions passed to complete, and sends an event if it is armed.
type paperCQ struct {
	*paper
	init  ProviderCQInit
	depth int
	wake  func()

	mu        sync.Mutex
	ready     []WC
	armed     bool
	solicited bool          // armed for solicited completions only
	keeps     bool          // arming for any completion outlasts arming for solicited ones, as on rdma_rxe
	broken    error         // the error of Arm
	beforeArm func()        // called by the next Arm, unless nil
	count     int           // of the last Moderate
	period    time.Duration // of the last Moderate
}

func (c *paperCQ) complete(wcs ...WC) { c.completeAs(false, wcs...) }

// completeAs adds completions that are solicited or not.
func (c *paperCQ) completeAs(solicited bool, wcs ...WC) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ready = append(c.ready, wcs...)
	if c.armed && (solicited || !c.solicited) {
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

func (c *paperCQ) PollEx(wcs []WCEx) (int, error) {
	if c.init.Ex == 0 {
		return 0, syscall.EINVAL
	}
	plain := make([]WC, len(wcs))
	n, err := c.Poll(plain)
	for i, wc := range plain[:n] {
		wcs[i] = WCEx{WC: wc, Timestamp: wc.ID + 1000}
	}
	return n, err
}

func (c *paperCQ) Arm(solicitedOnly bool) error {
	if f := c.beforeArm; f != nil {
		c.beforeArm = nil
		f()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	any := c.keeps && c.armed && !c.solicited
	c.armed, c.solicited = true, solicitedOnly && !any
	return c.broken
}

func (c *paperCQ) Resize(depth int) error {
	if err := c.refusal(); err != nil {
		return err
	}
	c.depth = depth
	return nil
}

func (c *paperCQ) Moderate(count int, period time.Duration) error {
	c.count, c.period = count, period
	return c.refusal()
}

func (c *paperCQ) Close() error { return c.gone() }

// paperSRQ counts the posted receives.
type paperSRQ struct {
	*paper
	attr   SRQAttr
	number uint32
	posted int
}

func (s *paperSRQ) PostRecv(wrs []RecvWR) (int, error) {
	n := min(len(wrs), int(s.attr.MaxWR)-s.posted)
	s.posted += n
	if n < len(wrs) {
		return n, syscall.ENOMEM
	}
	return n, nil
}

func (s *paperSRQ) Modify(attr SRQAttr, mask SRQAttrMask) error {
	if err := s.refusal(); err != nil {
		return err
	}
	if mask&SRQMaxWR != 0 {
		s.attr.MaxWR = attr.MaxWR
	}
	if mask&SRQLimit != 0 {
		s.attr.Limit = attr.Limit
	}
	return nil
}

func (s *paperSRQ) Query() (SRQAttr, error) { return s.attr, s.refusal() }
func (s *paperSRQ) Number() (uint32, error) { return s.number, s.refusal() }
func (s *paperSRQ) Close() error            { return s.gone() }

type paperQP struct {
	*paper
	qpn   uint32
	cap   QPCap
	state QPState

	draining bool
}

func (q *paperQP) QPN() uint32 { return q.qpn }
func (q *paperQP) Cap() QPCap  { return q.cap }

func (q *paperQP) Modify(attr *QPAttr, mask QPAttrMask) error {
	q.stalls()
	if err := q.refuse; err != nil {
		q.refuse = nil
		return err
	}
	if mask&1 != 0 {
		q.state = attr.State
	}
	return nil
}

func (q *paperQP) Query(QPAttrMask) (QPAttr, error) {
	return QPAttr{State: q.state, SQDraining: q.draining}, nil
}
func (q *paperQP) PostSend(wrs []SendWR) (int, error) { return len(wrs), nil }
func (q *paperQP) PostRecv(wrs []RecvWR) (int, error) { return len(wrs), nil }
func (q *paperQP) Close() error                       { return q.gone() }

func (q *paperQP) BindMW(uint64, SendFlags, *MWBind) error { return nil }
