package oob

// Tests of the native format: the golden bytes of each message, which
// docs/oob-protocol.md shows too, and the frames that a decoder must refuse.

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/pkg/errors"
)

var (
	goldenHello = Hello{
		Role:    RoleClient,
		Job:     "write",
		Program: "rdma_client",
		Params:  map[string]string{"size": "4096", "count": "10"},
	}
	goldenEndpoint = Endpoint{
		Index:              0,
		QPType:             QPTypeRC,
		QPN:                0x000112,
		PSN:                0xabcdef,
		GID:                [16]byte{10: 0xff, 11: 0xff, 12: 192, 13: 0, 14: 2, 15: 1},
		MTU:                1024,
		InitiatorDepth:     1,
		ResponderResources: 4,
	}
	goldenRegion = Region{Name: "buffer", Addr: 0x7f0012345000, RKey: 0x1a2b, Length: 4096}
	goldenNote   = Note{Name: "result", Data: []byte("10 writes")}
	goldenError  = &PeerError{Step: "RTR", Message: "ibv_modify_qp: ETIMEDOUT"}
)

// codec is one message type, with values of type any.
type codec struct {
	name   string
	value  any
	golden string // the frame in hexadecimal: header, then body
	encode func(dst []byte, v any) ([]byte, error)
}

var codecs = []codec{
	{
		name: "hello", value: goldenHello,
		golden: "52564f0a 01 01 0000 00000027" +
			"01 05 7772697465 0b 72646d615f636c69656e74 02 05 636f756e74 02 3130 04 73697a65 04 34303936",
		encode: func(dst []byte, v any) ([]byte, error) { return appendHello(dst, v.(Hello)) },
	},
	{
		name: "endpoints", value: []Endpoint{goldenEndpoint},
		golden: "52564f0a 01 02 0000 00000025" +
			"01 00 02 0000 00000112 00abcdef 00000000 00000000000000000000ffffc0000201 0400 01 04",
		encode: func(dst []byte, v any) ([]byte, error) { return appendEndpoints(dst, v.([]Endpoint)) },
	},
	{
		name: "regions", value: []Region{goldenRegion},
		golden: "52564f0a 01 03 0000 0000001d" +
			"0001 00007f0012345000 0000000000001000 00001a2b 06 627566666572",
		encode: func(dst []byte, v any) ([]byte, error) { return appendRegions(dst, v.([]Region)) },
	},
	{
		name: "barrier", value: "in RTS",
		golden: "52564f0a 01 04 0000 00000007 06 696e20525453",
		encode: func(dst []byte, v any) ([]byte, error) { return appendBarrier(dst, v.(string)) },
	},
	{
		name: "note", value: goldenNote,
		golden: "52564f0a 01 05 0000 00000010 06 726573756c74 313020777269746573",
		encode: func(dst []byte, v any) ([]byte, error) { return appendNote(dst, v.(Note)) },
	},
	{
		name: "error", value: goldenError,
		golden: "52564f0a 01 ff 0000 0000001e" +
			"03 525452 0018 6962765f6d6f646966795f71703a204554494d45444f5554",
		encode: func(dst []byte, v any) ([]byte, error) { return AppendError(dst, v.(*PeerError)), nil },
	},
}

func (c codec) bytes(t testing.TB) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(c.golden, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// decode decodes a whole frame as a Conn does.
func decode(frame []byte) (any, error) {
	h, err := decodeHeader(frame)
	if err != nil {
		return nil, err
	}
	m, err := decodeMessage(h, frame[HeaderSize:])
	return m.Value, err
}

func TestGoldenBytes(t *testing.T) {
	doc, err := os.ReadFile("../docs/oob-protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range codecs {
		t.Run(c.name, func(t *testing.T) {
			want := c.bytes(t)
			got, err := c.encode([]byte("before"), c.value)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, append([]byte("before"), want...)) {
				t.Errorf("encoded\n%s, want\n%s", hex.Dump(got[len("before"):]), hex.Dump(want))
			}
			back, err := decode(want)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(back, c.value) {
				t.Errorf("decoded %+v, want %+v", back, c.value)
			}
			if !strings.Contains(string(doc), hex.Dump(want)) {
				t.Errorf("docs/oob-protocol.md does not show this message:\n%s", hex.Dump(want))
			}
		})
	}
}

// TestDecodersRefuse shortens and lengthens each golden message, and sets each header bit
// that must be zero.
func TestDecodersRefuse(t *testing.T) {
	for _, c := range codecs {
		t.Run(c.name, func(t *testing.T) {
			golden := c.bytes(t)
			refuse := func(what string, frame []byte, text string) {
				t.Helper()
				v, err := decode(frame)
				var e *ProtocolError
				if !errors.As(err, &e) {
					t.Errorf("%s: got %+v, %v, want a ProtocolError", what, v, err)
				} else if !strings.Contains(err.Error(), text) {
					t.Errorf("%s: error %q does not say %q", what, err, text)
				}
			}
			for n := range HeaderSize {
				refuse("a header cut short", golden[:n], "too few for a header")
			}
			if c.name != "note" { // a note's data may have any length
				for n := HeaderSize; n < len(golden); n++ {
					refuse("a body cut short", withLength(golden[:n]), "")
				}
				refuse("one byte more", withLength(append(bytes.Clone(golden), 0)), "")
			}
			for bit := range 16 {
				frame := bytes.Clone(golden)
				frame[6+bit/8] |= 1 << (bit % 8)
				refuse("a flag", frame, "reserved flags")
			}
			other := bytes.Clone(golden)
			other[5] = 77
			refuse("unknown type", other, "unknown message type 77")
			other = bytes.Clone(golden)
			other[0] = 'X'
			refuse("magic", other, `must start with "RVO\n"`)
			other = bytes.Clone(golden)
			binary.BigEndian.PutUint32(other[8:], 1<<32-1)
			refuse("length", other, "announces 4294967295 bytes, the limit is")

			other = bytes.Clone(golden)
			other[4] = version + 1
			if c.name == "error" {
				if _, err := decode(other); err != nil {
					t.Errorf("an error message of another version is refused: %v", err)
				}
				return
			}
			refuse("version", other, "speaks version 2 of the protocol, this end version 1")
			if _, err := decode(other); !errors.Is(err, ErrVersion) {
				t.Errorf("another version: %v does not match ErrVersion", err)
			}
		})
	}
}

// withLength sets the header's length to the frame's real length.
func withLength(frame []byte) []byte {
	frame = bytes.Clone(frame)
	binary.BigEndian.PutUint32(frame[8:], uint32(len(frame)-HeaderSize))
	return frame
}

// TestValueRules breaks each rule of a value once. The encoder must refuse the value. A
// peer can still send most of these values; TestDecoderRules covers that.
func TestValueRules(t *testing.T) {
	long := strings.Repeat("x", 300)
	endpoint := func(change func(*Endpoint)) []Endpoint {
		e := goldenEndpoint
		change(&e)
		return []Endpoint{e}
	}
	region := func(change func(*Region)) []Region {
		r := goldenRegion
		change(&r)
		return []Region{r}
	}
	hello := func(change func(*Hello)) Hello {
		h := goldenHello
		h.Params = maps.Clone(h.Params)
		change(&h)
		return h
	}
	tooMany := map[string]string{}
	tooLong := map[string]string{}
	for i := range MaxParams + 1 {
		tooMany[string(rune('A'+i))] = ""
		if i < MaxParams {
			tooLong[string(rune('A'+i))] = long[:MaxParamValue]
		}
	}
	for _, test := range []struct {
		codec string
		value any
		text  string
	}{
		{"hello", hello(func(h *Hello) { h.Role = 0 }), "role 0 is neither client (1) nor server (2)"},
		{"hello", hello(func(h *Hello) { h.Job = long }), "job has 300 bytes, the limit is 64"},
		{"hello", hello(func(h *Hello) { h.Job = "a\x1b[2Jb" }), "unprintable character U+001B"},
		{"hello", hello(func(h *Hello) { h.Program = "a\nb" }), "unprintable character U+000A"},
		{"hello", hello(func(h *Hello) { h.Program = "a\u202eb" }), "unprintable character U+202E"},
		{"hello", hello(func(h *Hello) { h.Program = "a\xffb" }), "not valid UTF-8"},
		{"hello", hello(func(h *Hello) { h.Params[""] = "v" }), "parameter key is empty"},
		{"hello", hello(func(h *Hello) { h.Params["k"] = long }), "parameter k has 300 bytes"},
		{"hello", hello(func(h *Hello) { h.Params = tooMany }), "33 parameters, the limit is 32"},
		{"hello", hello(func(h *Hello) { h.Params = tooLong }), "the limit is 4096"},
		{"endpoints", []Endpoint(nil), "no endpoint"},
		{"endpoints", make([]Endpoint, MaxEndpoints+1), "65 endpoints, the limit is 64"},
		{"endpoints", endpoint(func(e *Endpoint) { e.QPType = 9 }), "QP type 9"},
		{"endpoints", endpoint(func(e *Endpoint) { e.QPN = 1 << 24 }), "QPN 0x1000000 does not fit in 24 bits"},
		{"endpoints", endpoint(func(e *Endpoint) { e.PSN = 1 << 24 }), "PSN 0x1000000 does not fit in 24 bits"},
		{"endpoints", endpoint(func(e *Endpoint) { e.MTU = 1500 }), "path MTU 1500 is not"},
		{"endpoints", endpoint(func(e *Endpoint) { e.MTU = 65536 + 1024 }), "path MTU 66560 is not"},
		{"endpoints", []Endpoint{goldenEndpoint, goldenEndpoint}, "the indexes must ascend"},
		{"regions", make([]Region, MaxRegions+1), "257 regions, the limit is 256"},
		{"regions", region(func(r *Region) { r.Name = "" }), "region 0: name is empty"},
		{"regions", region(func(r *Region) { r.Name = long }), "name has 300 bytes"},
		{"regions", region(func(r *Region) { r.Addr = 1<<64 - 1; r.Length = 2 }), "past the end of the address space"},
		{"regions", []Region{goldenRegion, goldenRegion}, `"buffer" is used twice`},
		{"barrier", "", "name is empty"},
		{"barrier", long, "name has 300 bytes"},
		{"barrier", "a\rb", "U+000D"},
		{"note", Note{}, "name is empty"},
		{"note", Note{Name: "n", Data: make([]byte, MaxNoteData+1)}, "send it in parts"},
	} {
		c := codecNamed(t, test.codec)
		got, err := c.encode([]byte("before"), test.value)
		if err == nil || !strings.Contains(err.Error(), test.text) {
			t.Errorf("%s %.80v: error %v, want %q", test.codec, test.value, err, test.text)
		}
		if string(got) != "before" {
			t.Errorf("%s %.80v: a refused value left %d bytes", test.codec, test.value, len(got)-len("before"))
		}
	}
}

// TestDecoderRules decodes bodies that no encoder produces.
func TestDecoderRules(t *testing.T) {
	for _, test := range []struct{ codec, body, text string }{
		{"hello", "07 00 00 00", "role 7"},
		{"hello", "01 00 00 21", "33 parameters"},
		{"hello", "01 00 00 02 01 62 00 01 61 00", `"a" does not follow "b"`},
		{"hello", "01 00 00 02 01 61 00 01 61 00", `"a" does not follow "a"`},
		{"hello", "01 01 ff 00 00", "not valid UTF-8"},
		{"hello", "01 01 07 00 00", "U+0007"},
		{"endpoints", "00", "no endpoint"},
		{"endpoints", "41", "65 endpoints"},
		{"endpoints", "40 00", "64 endpoints need 2304 bytes, the body has 1"},
		{"endpoints", "01 00 02 0000 01000000 00000000 00000000 00000000000000000000000000000000 0400 00 00", "QPN 0x1000000"},
		{"endpoints", "01 00 02 0000 00000000 ff000000 00000000 00000000000000000000000000000000 0400 00 00", "PSN 0xff000000"},
		{"endpoints", "01 00 02 0000 00000000 00000000 00000000 00000000000000000000000000000000 0000 00 00", "path MTU 0"},
		{"endpoints", "01 00 06 0000 00000000 00000000 00000000 00000000000000000000000000000000 0400 00 00", "QP type 6"},
		{"regions", "0101", "257 regions"},
		{"regions", "0001 ffffffffffffffff 0000000000000002 00000000 01 61", "past the end"},
		{"regions", "0001 0000000000000000 0000000000000002 00000000 00", "name is empty"},
		{"barrier", "00", "name is empty"},
		{"barrier", "01 7f", "U+007F"},
		{"note", "00", "name is empty"},
		{"note", "02 61", "ends too early"},
		{"error", "00 0001 0a", "U+000A"},
		{"error", "00 0002 61", "ends too early"},
	} {
		c := codecNamed(t, test.codec)
		body, err := hex.DecodeString(strings.ReplaceAll(test.body, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		_, err = decode(withLength(append(bytes.Clone(c.bytes(t)[:HeaderSize]), body...)))
		if err == nil || !strings.Contains(err.Error(), test.text) {
			t.Errorf("%s %s: error %v, want %q", test.codec, test.body, err, test.text)
		}
	}
}

func codecNamed(t *testing.T, name string) codec {
	t.Helper()
	for _, c := range codecs {
		if c.name == name {
			return c
		}
	}
	t.Fatalf("no codec %q", name)
	return codec{}
}

// TestLargestMessages checks that the largest allowed values fit into a body.
func TestLargestMessages(t *testing.T) {
	endpoints := make([]Endpoint, MaxEndpoints)
	for i := range endpoints {
		endpoints[i] = goldenEndpoint
		endpoints[i].Index = uint8(i)
	}
	regions := make([]Region, MaxRegions)
	for i := range regions {
		name := strings.Repeat("r", MaxRegionName-2) + string(rune('a'+i/16)) + string(rune('a'+i%16))
		regions[i] = Region{Name: name, Length: 1<<64 - 1}
	}
	note := Note{Name: strings.Repeat("n", MaxName), Data: make([]byte, MaxNoteData)}
	failure := &PeerError{Step: strings.Repeat("s", MaxName), Message: strings.Repeat("m", MaxErrorText)}
	for name, value := range map[string]any{"endpoints": endpoints, "regions": regions, "note": note, "error": failure} {
		c := codecNamed(t, name)
		frame, err := c.encode(nil, value)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		back, err := decode(frame)
		if err != nil || !reflect.DeepEqual(back, value) {
			t.Errorf("%s: the decoded value differs (%d bytes): %v", name, len(frame), err)
		}
	}
}

// TestErrorTextIsTidied checks that any error text can be sent.
func TestErrorTextIsTidied(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"plain", "plain"},
		{"two\nlines\x1b[31m", "two lines [31m"},
		{"bad \xff UTF-8", "bad \ufffd UTF-8"},
		{strings.Repeat("é", MaxErrorText), strings.Repeat("é", (MaxErrorText-3)/2) + "..."},
		{"", ""},
	} {
		v, err := decode(AppendError(nil, &PeerError{Step: test.in, Message: test.in}))
		if err != nil {
			t.Errorf("%.20q: %v", test.in, err)
		} else if e := v.(*PeerError); e.Message != test.want {
			t.Errorf("%.20q: got %q, want %q", test.in, e.Message, test.want)
		}
	}
}

func TestUnknownNumbersPrint(t *testing.T) {
	for _, test := range []struct {
		got  interface{ String() string }
		want string
	}{
		{RoleClient, "client"}, {RoleServer, "server"}, {Role(9), "Role(9)"},
		{QPTypeRC, "IBV_QPT_RC"}, {QPTypeUC, "IBV_QPT_UC"}, {QPTypeUD, "IBV_QPT_UD"}, {QPType(1), "QPType(1)"},
		{TypeHello, "hello"}, {TypeRegions, "regions"}, {MessageType(9), "MessageType(9)"},
	} {
		if got := test.got.String(); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}
