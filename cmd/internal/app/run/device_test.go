package run

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// TestTheDefaultDeviceIsNoTrouble checks that the first line of a good run has no errno and no
// advice to load a driver.
func TestTheDefaultDeviceIsNoTrouble(t *testing.T) {
	var out bytes.Buffer
	dev, err := (&Options{IBPort: 1}).openDevice(&rc.Config{Logger: slog.New(slog.NewTextHandler(&out, nil))}, verbs.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	want := "the first device"
	if dev.Name() == "soft0" {
		want = "no RDMA device; using soft0"
	}
	if !strings.Contains(out.String(), `why="`+want+`"`) {
		t.Errorf("want why=%q:\n%s", want, &out)
	}
}

// TestALostDeviceIsToldOf checks that the reason for a provider's missing devices is logged,
// unless the host simply has none.
func TestALostDeviceIsToldOf(t *testing.T) {
	soft := verbs.DeviceInfo{Name: "soft0", Provider: "softroce", InProcess: true}
	for _, test := range []struct {
		info verbs.DeviceInfo
		err  error
		want string
	}{
		{soft, nil, "no RDMA device; using soft0"},
		{soft, &verbs.Error{Op: "ibv_get_device_list", Errno: 38}, "no RDMA device; using soft0"},
		{soft, &verbs.Error{Op: "ibv_get_device_list", Errno: 13}, "the first device; ibv_get_device_list: EACCES"},
		{verbs.DeviceInfo{Name: "rxe0", Provider: "libibverbs"}, nil, "the first device"},
	} {
		if got := whyFirst(test.info, test.err); !strings.HasPrefix(got, test.want) {
			t.Errorf("%v, %v: %q, want %q", test.info, test.err, got, test.want)
		}
	}
}
