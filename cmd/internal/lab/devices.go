// The devices of this host.

package lab

import (
	stderrors "errors"
	"fmt"
	"strings"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/cmd/internal/view/columns"
	"github.com/rawverbs/rawverbs/verbs"
)

// DeviceList is the report of the devices.
type DeviceList struct {
	Devices  []Device `json:"devices"`
	Problems []string `json:"problems,omitempty"` // of providers that could not list theirs
}

// Device is a device with its ports.
type Device struct {
	Name     string `json:"name"`
	Provider string `json:"provider"`
	Ports    []Port `json:"ports"`
	Problem  string `json:"problem,omitempty"` // why its ports are not known

	inProcess bool
}

// Port is a port of a device.
type Port struct {
	Port      uint8  `json:"port"`
	State     string `json:"state"`
	LinkLayer string `json:"link_layer"`
	ActiveMTU int    `json:"active_mtu"` // bytes
	MaxMTU    int    `json:"max_mtu"`    // bytes
	GIDs      int    `json:"gids"`       // filled slots
}

// Devices lists the devices. It opens each of them.
func Devices() (*DeviceList, error) {
	infos, err := verbs.Devices()
	if len(infos) == 0 && err != nil {
		return nil, err
	}
	list := &DeviceList{Devices: []Device{}}
	if err != nil && !errors.Is(err, stderrors.ErrUnsupported) { // no libibverbs is no problem
		list.Problems = append(list.Problems, err.Error())
	}
	for _, info := range infos {
		d := Device{Name: info.Name, Provider: info.Provider, Ports: []Port{}, inProcess: info.InProcess}
		if err := d.look(); err != nil {
			d.Problem = err.Error()
		}
		list.Devices = append(list.Devices, d)
	}
	return list, nil
}

// look opens the device and asks for its ports.
func (d *Device) look() (err error) {
	dev, err := verbs.Open(d.Name)
	if err != nil {
		return err
	}
	defer kit.CloseAll(&err, dev)
	attr, err := dev.Query()
	if err != nil {
		return err
	}
	table, err := dev.QueryGIDTable()
	if err != nil {
		return err
	}
	for n := 1; n <= attr.PhysPortCnt; n++ {
		port, err := dev.QueryPort(uint8(n))
		if err != nil {
			return err
		}
		p := Port{
			Port: uint8(n), State: plain(port.State, "IBV_PORT_"), LinkLayer: plain(port.LinkLayer, "IBV_LINK_LAYER_"),
			ActiveMTU: port.ActiveMTU.Bytes(), MaxMTU: port.MaxMTU.Bytes(),
		}
		for _, e := range table {
			if e.Port == p.Port {
				p.GIDs++
			}
		}
		d.Ports = append(d.Ports, p)
	}
	return nil
}

// plain returns a C name without its prefix.
func plain(name fmt.Stringer, prefix string) string { return strings.TrimPrefix(name.String(), prefix) }

// Text has one row for each port.
func (l *DeviceList) Text() string {
	var p columns.Page
	rows := [][]string{{"DEVICE", "PROVIDER", "PORT", "STATE", "LINK", "MTU", "GIDS"}}
	for _, d := range l.Devices {
		if d.Problem != "" {
			continue
		}
		for _, port := range d.Ports {
			rows = append(rows, []string{
				d.Name, d.Provider, fmt.Sprint(port.Port), port.State, port.LinkLayer,
				fmt.Sprintf("%d, at most %d", port.ActiveMTU, port.MaxMTU), fmt.Sprint(port.GIDs),
			})
		}
	}
	if len(rows) > 1 {
		p.Table(rows)
	}
	for _, d := range l.Devices {
		if d.Problem != "" {
			p.Para(d.Name+": ", d.Problem)
		}
	}
	for _, problem := range l.Problems {
		p.Para("", problem)
	}
	if len(l.Devices) == 1 && l.Devices[0].inProcess {
		p.Para("", "There is no RDMA device. "+l.Devices[0].Name+" is a device in software; docs/setup.md says how to get others.")
	}
	return p.String()
}
