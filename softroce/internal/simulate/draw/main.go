// Command draw runs the scenarios of package simulate. It prints a table, and writes a drawing of
// each scenario over time.
//
//	go run ./softroce/internal/simulate/draw -o out/simulate [-run incast]
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"regexp"

	"github.com/rawverbs/rawverbs/internal/chart"
	"github.com/rawverbs/rawverbs/softroce/internal/simulate"
)

func main() {
	log.SetFlags(0)
	out := flag.String("o", "out/simulate", "write the drawings into this `folder`")
	only := flag.String("run", ".", "run only the scenarios whose names match this `regexp`")
	flag.Parse()
	chosen, err := regexp.Compile(*only)
	if err != nil {
		log.Fatalf("-run: %v", err)
	}
	if err := os.MkdirAll(*out, 0o755); err != nil {
		log.Fatal(err)
	}
	fmt.Println("| scenario | of the line | Jain's index | timeouts | went back | lost at random | overflows | of the packets lost | marked |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|")
	for _, s := range simulate.All() {
		if !chosen.MatchString(s.Name) {
			continue
		}
		r, err := s.Run()
		if err != nil {
			log.Fatalf("%s: %v", s.Name, err)
		}
		fmt.Printf("| %s | %.1f %% | %.3f | %d | %d | %d | %d | %.2f %% | %d |\n", s.Title, 100*r.Share, r.Jain, r.Timeouts, r.WentBack, r.Lost, r.Overflow, 100*r.Dropped, r.Marked)
		if err := os.WriteFile(filepath.Join(*out, s.Name+".svg"), drawing(s, r), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}

// drawing draws the throughput, the queue and the fairness of a scenario over time.
func drawing(s *simulate.Scenario, r *simulate.Result) []byte {
	c := chart.Chart{Title: s.Title, X: "milliseconds", Y: "%", Series: true, Curves: []chart.Curve{
		{Name: "throughput, of the line"}, {Name: "queue, of the port's buffer"}, {Name: "fairness, Jain's index"},
	}}
	for i, values := range [][]float64{r.Throughput, r.Queue, r.Fairness} {
		for ms, v := range values {
			c.Curves[i].Points = append(c.Curves[i].Points, chart.Point{X: float64(ms), Y: v})
		}
	}
	return c.SVG()
}
