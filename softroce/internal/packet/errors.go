// The errors of Parse and Build.

package packet

// ParseError is the reason why a datagram is not a packet. The values are consecutive, so an
// array of NumParseErrors counters can count them. They are constants, so errors.Is finds them.
type ParseError uint8

// The reasons.
const (
	ErrTruncated ParseError = iota // shorter than its headers and ICRC
	ErrTVer                        // transport header version other than 0
	ErrOpcode                      // unknown opcode
	ErrPad                         // payload and pad are not a multiple of 4
	ErrPayload                     // payload length that the opcode does not allow
)

// NumParseErrors is the number of ParseErrors.
const NumParseErrors = int(ErrPayload) + 1

var parseErrorTexts = [NumParseErrors]string{
	"packet shorter than its headers",
	"transport header version is not 0",
	"unknown opcode",
	"pad count does not fit the payload",
	"payload length that the opcode does not allow",
}

func (e ParseError) Error() string {
	if int(e) < NumParseErrors {
		return "softroce/packet: " + parseErrorTexts[e]
	}
	return "softroce/packet: unknown parse error"
}
