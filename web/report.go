package web

import (
	_ "embed"
	"strings"

	"github.com/pkg/errors"
)

// The parts of the report. They are files of their own here, and not of the file system dist, so that
// a program that writes reports does not contain the engine.
var (
	//go:embed dist/report.html
	reportPage string
	//go:embed dist/report.css
	reportStyle string
	//go:embed dist/report.js
	reportScript string
	//go:embed dist/LICENSES.txt
	licences string
)

// ReportParts are the parts of the report's page. Page has the places of the others: {{style}},
// {{script}}, {{licences}}, and of two that the caller fills in: {{policy}} and {{data}}.
type ReportParts struct{ Page, Style, Script, Licences string }

// Report returns the parts of the report's page.
func Report() (ReportParts, error) {
	p := ReportParts{reportPage, strings.TrimSpace(reportStyle), strings.TrimSpace(reportScript), strings.TrimSpace(licences)}
	if p.Page == "" || p.Script == "" {
		return p, errors.New("this program was built without the report's page; try: make web && make")
	}
	return p, nil
}
