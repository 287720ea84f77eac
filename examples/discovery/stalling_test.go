package main

import (
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/rawverbs/rawverbs/verbs"
)

// stallingPrefix before a device's name opens the device with a CreateAH that waits for
// strangeGID, as the kernel does on RoCE.
const stallingPrefix = "stalling:"

var strangeGID = verbs.GID{0xfe, 0x80, 15: 0x99}

// stalled holds the channel whose end ends the waits.
var stalled atomic.Pointer[chan struct{}]

type stalling struct{}

func init() { verbs.Register(stalling{}) }

func (stalling) Name() string                         { return "stalling" }
func (stalling) Devices() ([]verbs.DeviceInfo, error) { return nil, nil }

func (stalling) Open(name string) (verbs.ProviderDevice, error) {
	name, ok := strings.CutPrefix(name, stallingPrefix)
	if !ok {
		return nil, syscall.ENODEV
	}
	under, err := verbs.Open(name)
	if err != nil {
		return nil, err
	}
	return &stallingDevice{verbs.ProviderOf(under), under}, nil
}

type stallingDevice struct {
	verbs.ProviderDevice
	under *verbs.Device
}

func (d *stallingDevice) Close() error { return d.under.Close() }

func (d *stallingDevice) AllocPD() (verbs.ProviderPD, error) {
	pd, err := d.ProviderDevice.AllocPD()
	return &stallingPD{pd}, err
}

type stallingPD struct{ verbs.ProviderPD }

func (pd *stallingPD) CreateAH(attr verbs.AHAttr) (verbs.ProviderAH, error) {
	if attr.GRH.DGID == strangeGID {
		<-*stalled.Load()
	}
	return pd.ProviderPD.CreateAH(attr)
}
