// The metrics: their names, and the counters of devices behind them.

package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rawverbs/rawverbs/cmd/internal/app/run"
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("rawverbs_"+name, help, labels, nil)
}

// Prometheus labels each target with "job", so jobs have the label "rdma_job".
var (
	connections = desc("connections_total", "TCP connections that the server has accepted.")
	refused     = desc("connections_refused_total", "Connections that began no job, by reason.", "reason")
	clients     = desc("clients", "Clients that have a place: they connect, or their job is in progress.")
	jobs        = desc("jobs_total", "Jobs that have ended.", "rdma_job", "outcome")
	jobBytes    = desc("job_bytes_total", "Bytes of data that jobs have moved, as far as the server knows.", "rdma_job")
	durations   = desc("job_duration_seconds", "Time from a client's admission to the end of its job.", "rdma_job")
	completions = desc("completions_total", "Work completions that the server has polled, by status.", "status")

	notBefore = desc("tls_not_before_seconds", "When the certificate of --tls and the CAs above it begin to be valid, in seconds since 1970.")
	notAfter  = desc("tls_not_after_seconds", "When the certificate of --tls, or a CA above it, expires, in seconds since 1970.")

	memory       = desc("budget_memory_bytes", "Memory that the clients in progress have asked for.")
	memoryLimit  = desc("budget_memory_limit_bytes", "Memory that all clients may ask for: --max-memory.")
	clientsLimit = desc("clients_limit", "Clients that may have a job at once: --max-clients.")

	deviceBytes = desc("device_bytes_total", "Bytes that the device has sent or received, with the headers that it counts.", "device", "direction")
	packets     = desc("device_packets_total", "Packets that the device has sent or received.", "device", "direction")
	retransmits = desc("retransmits_total", "How often the device went back to send again.", "device")
	rnr         = desc("rnr_naks_total", "RNR NAKs, sent by the device because no receive was posted.", "device")
	drops       = desc("drops_total", "Packets that the device dropped, by reason.", "device", "reason")
	statistics  = desc("device_statistics_total", "All counters of the device's port, under the driver's names.", "device", "counter")
	portUp      = desc("port_up", "1 while the device's port is active and clients have an address to connect to, otherwise 0.", "device")
)

// collector reads the counts at each scrape.
type collector struct{ counts *run.Counts }

func (collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{connections, refused, clients, jobs, jobBytes, durations, completions, notBefore, notAfter,
		memory, memoryLimit, clientsLimit, deviceBytes, packets, retransmits, rnr, drops, statistics, portUp} {
		ch <- d
	}
}

func (c collector) Collect(ch chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, value, labels...)
	}
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	s := c.counts.Snapshot()
	counter(connections, float64(s.Connections))
	for why, n := range s.Refused {
		counter(refused, float64(n), run.Refusal(why).String())
	}
	if !s.TLS.Until.IsZero() {
		gauge(notBefore, float64(s.TLS.From.Unix()))
		gauge(notAfter, float64(s.TLS.Until.Unix()))
	}
	gauge(clients, float64(s.Clients))
	gauge(clientsLimit, float64(s.ClientsLimit))
	gauge(memory, float64(s.Memory))
	gauge(memoryLimit, float64(s.MemoryLimit))
	for _, j := range s.Jobs {
		counter(jobs, float64(j.Succeeded), j.Job, "succeeded")
		counter(jobs, float64(j.Failed), j.Job, "failed")
		counter(jobBytes, float64(j.Bytes), j.Job)
		within := make(map[float64]uint64)
		for i, most := range run.Durations {
			within[most.Seconds()] = j.Within[i]
		}
		ch <- prometheus.MustNewConstHistogram(durations, j.Runs, j.Took.Seconds(), within, j.Job)
	}
	for status, n := range c.counts.WCs.All() {
		counter(completions, float64(n), status.String())
	}
	if s.Device == "" {
		return
	}
	up := 1.0
	if s.Down != nil {
		up = 0
	}
	gauge(portUp, up, s.Device)
	for name, value := range s.Counters {
		if isGauge(name) {
			continue
		}
		counter(statistics, float64(value), s.Device, name)
		if reason, is := strings.CutPrefix(strings.TrimPrefix(name, "link_"), "drop_"); is && s.InProcess {
			counter(drops, float64(value), s.Device, reason)
		}
	}
	for _, known := range knownCounters {
		sum, found := 0.0, false
		for _, name := range known.names {
			if value, has := s.Counters[name]; has {
				sum, found = sum+float64(value)*known.unit, true
			}
		}
		if found {
			counter(known.desc, sum, append([]string{s.Device}, known.labels...)...)
		}
	}
}

// isGauge reports whether a driver's counter does not count: it is a setting (lifespan), or the number of objects that
// exist (bnxt_re).
func isGauge(name string) bool {
	return name == "lifespan" || strings.HasPrefix(name, "active_") || strings.HasPrefix(name, "watermark_")
}

// knownCounters are counters that several drivers have, each under a name of its own: those of soft
// devices, of rdma_rxe, and of mlx5 and other hardware. port_xmit_data counts words of four bytes.
var knownCounters = []struct {
	desc   *prometheus.Desc
	labels []string
	unit   float64
	names  []string
}{
	{deviceBytes, []string{"tx"}, 1, []string{"link_tx_bytes"}},
	{deviceBytes, []string{"rx"}, 1, []string{"link_rx_bytes"}},
	{deviceBytes, []string{"tx"}, 4, []string{"port_xmit_data"}},
	{deviceBytes, []string{"rx"}, 4, []string{"port_rcv_data"}},
	{packets, []string{"tx"}, 1, []string{"tx_packets", "sent_pkts", "port_xmit_packets"}},
	{packets, []string{"rx"}, 1, []string{"rx_packets", "rcvd_pkts", "port_rcv_packets"}},
	{retransmits, nil, 1, []string{"retransmits", "completer_retry_err", "packet_seq_err", "local_ack_timeout_err"}},
	{rnr, nil, 1, []string{"rnr_naks", "send_rnr_err", "out_of_buffer"}},
	{drops, []string{"port_rcv_errors"}, 1, []string{"port_rcv_errors"}},
	{drops, []string{"port_xmit_discards"}, 1, []string{"port_xmit_discards"}},
}
