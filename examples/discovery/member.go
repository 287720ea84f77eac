// A member of the multicast group: a UD queue pair, from its objects to its datagrams.

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"

	"github.com/rawverbs/rawverbs/verbs"
)

// member is a UD queue pair in the group.
type member struct {
	gid   verbs.GIDEntry
	pd    *verbs.PD
	sends *verbs.CQ
	recvs *verbs.CQ
	mr    *verbs.MR // one datagram to send, then the receives
	qp    *verbs.QP
	group *verbs.AH
	made  []io.Closer // to be closed, the last first
	err   error       // the first failure of keep
}

// keep makes an object that leave closes. After a failure it makes nothing.
func keep[T io.Closer](m *member, make func() (T, error)) (object T) {
	if m.err == nil {
		if object, m.err = make(); m.err == nil {
			m.made = append(m.made, object)
		}
	}
	return object
}

// join makes a member on a device; "" is the first one.
func join(device string) (*member, error) {
	m := &member{}
	address := netip.MustParseAddr(group)
	to := verbs.GIDFrom(address)
	dev := keep(m, func() (*verbs.Device, error) { return verbs.Open(device) })
	m.pd = keep(m, func() (*verbs.PD, error) { return dev.AllocPD() })
	channel := keep(m, func() (*verbs.CompChannel, error) { return dev.CreateCompChannel() })
	cq := func() (*verbs.CQ, error) { return dev.CreateCQ(verbs.CQInit{Depth: queued, Channel: channel}) }
	m.sends, m.recvs = keep(m, cq), keep(m, cq)
	m.mr = keep(m, func() (*verbs.MR, error) {
		return m.pd.AllocMR(size+queued*(grhSize+size), verbs.AccessLocalWrite)
	})
	m.qp = keep(m, func() (*verbs.QP, error) {
		return m.pd.CreateQP(verbs.QPInit{Type: verbs.UD, SendCQ: m.sends, RecvCQ: m.recvs,
			Cap: verbs.QPCap{MaxSendWR: queued, MaxRecvWR: queued, MaxSendSGE: 1, MaxRecvSGE: 1}})
	})
	if m.err != nil {
		return nil, errors.Join(m.err, m.leave())
	}
	table, err := dev.QueryGIDTable()
	if err == nil {
		m.gid, _, err = verbs.ChooseGID(table, verbs.GIDSelection{Peer: address})
	}
	if err != nil {
		return nil, errors.Join(err, m.leave())
	}
	m.group = keep(m, func() (*verbs.AH, error) { return m.pd.CreateAH(m.gid.To(to)) })
	keep(m, func() (io.Closer, error) { return m.joinIP(address) })
	keep(m, func() (io.Closer, error) { return detach{m.qp, to}, m.qp.AttachMcast(to, 0) })
	if m.err == nil {
		m.err = m.ready()
	}
	if m.err != nil {
		return nil, errors.Join(m.err, m.leave())
	}
	return m, nil
}

// joinIP makes the host a member of the IP group: rdma_rxe leaves that to the program.
func (m *member) joinIP(address netip.Addr) (io.Closer, error) {
	ifi, err := net.InterfaceByName(m.gid.Netdev)
	if err != nil {
		return nil, fmt.Errorf("the network interface of %v: %w", m.gid, err)
	}
	return net.ListenMulticastUDP("udp4", ifi, &net.UDPAddr{IP: address.AsSlice()})
}

// detach leaves the group, which a queue pair must do before it can be closed.
type detach struct {
	qp *verbs.QP
	to verbs.GID
}

func (d detach) Close() error { return d.qp.DetachMcast(d.to, 0) }

// ready moves the queue pair to RTS and posts the receives.
func (m *member) ready() error {
	machine := m.qp.Machine(nil)
	if err := machine.ToInit(verbs.QPAttr{PortNum: m.gid.Port, QKey: qkey}); err != nil {
		return err
	}
	for i := range queued {
		if err := m.postRecv(i); err != nil {
			return err
		}
	}
	if err := machine.ToRTR(verbs.QPAttr{}); err != nil { // UD has no peer
		return err
	}
	return machine.ToRTS(verbs.QPAttr{})
}

// printLost prints how many datagrams came while no receive was posted. Devices of libibverbs do not
// count them for each queue pair; some count them for all together (Device.MissedReceives).
func (m *member) printLost(log io.Writer) {
	if n, err := m.qp.MissedReceives(); err == nil && n > 0 {
		fmt.Fprintf(log, "discovery: %d datagrams were lost, because no receive was posted\n", n)
	}
}

func (m *member) leave() (err error) {
	for _, object := range slices.Backward(m.made) {
		err = errors.Join(err, object.Close())
	}
	return err
}

func (m *member) postRecv(i int) error {
	return m.qp.PostRecv([]verbs.RecvWR{{ID: uint64(i), SGL: []verbs.SGE{m.mr.SGE(size+i*(grhSize+size), grhSize+size)}}})
}

// encode returns the datagram's data.
func (d datagram) encode() ([]byte, error) {
	text, err := json.Marshal(d)
	if err == nil && len(text) > size {
		err = fmt.Errorf("a datagram has %d bytes, want at most %d", len(text), size)
	}
	return text, err
}

// send sends one datagram and waits until its memory is free again.
func (m *member) send(ctx context.Context, ah *verbs.AH, qpn uint32, d datagram) error {
	text, err := d.encode()
	if err != nil {
		return err
	}
	n := copy(m.mr.Bytes(), text)
	if err := m.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendSignaled,
		SGL: []verbs.SGE{m.mr.SGE(0, n)}, AH: ah, RemoteQPN: qpn, RemoteQKey: qkey}}); err != nil {
		return err
	}
	_, err = wait(ctx, m.sends)
	return err
}

// receive returns the next datagram; ok is false if it is not one of this program's.
func (m *member) receive(ctx context.Context) (d datagram, ok bool, err error) {
	wc, err := wait(ctx, m.recvs)
	if err != nil {
		return datagram{}, false, err
	}
	data := m.mr.Bytes()[size+int(wc.ID)*(grhSize+size):][grhSize:wc.ByteLen]
	ok = json.Unmarshal(data, &d) == nil && d.QPN < 1<<24
	return d, ok, m.postRecv(int(wc.ID))
}

func wait(ctx context.Context, cq *verbs.CQ) (verbs.WC, error) {
	var wcs [1]verbs.WC
	if _, err := cq.Wait(ctx, wcs[:]); err != nil {
		return verbs.WC{}, err
	}
	return wcs[0], wcs[0].Err()
}
