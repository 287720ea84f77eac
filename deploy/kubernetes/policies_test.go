package kubernetes

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestPolicies checks that the NetworkPolicies let a server and its clients reach each other, and nobody else. A
// device in software also receives packets that answer no packet of its own, at the client too.
func TestPolicies(t *testing.T) {
	for _, file := range []string{"soft.yaml", "param-server.yaml"} {
		objects := load(t, file)
		var service *corev1.Service
		for _, object := range objects {
			if s, is := object.(*corev1.Service); is {
				service = s
			}
		}
		var server, client, stranger labels.Set = nil, nil, labels.Set{"app": "stranger"}
		for _, pod := range pods(t, objects) {
			if labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(pod.Labels)) {
				server = pod.Labels
			} else {
				client = pod.Labels
			}
		}
		for _, port := range service.Spec.Ports {
			protocol := port.Protocol
			if protocol == "" {
				protocol = corev1.ProtocolTCP
			}
			if port.Name != "metrics" && !admitted(t, objects, client, server, protocol, port.Port) {
				t.Errorf("%s: the client does not reach the server's port %s", file, port.Name)
			}
			if admitted(t, objects, stranger, server, protocol, port.Port) {
				t.Errorf("%s: a stranger reaches the server's port %s", file, port.Name)
			}
		}
		if !admitted(t, objects, server, client, corev1.ProtocolUDP, 4791) {
			t.Errorf("%s: the server does not reach the client's device", file)
		}
		if admitted(t, objects, stranger, client, corev1.ProtocolUDP, 4791) {
			t.Errorf("%s: a stranger reaches the client's device", file)
		}
	}
}

// TestHardwarePolicy checks that nobody of the pods' own network reaches a server on hardware: its clients come over the
// network of Multus.
func TestHardwarePolicy(t *testing.T) {
	objects := load(t, "rdma.yaml")
	all := pods(t, objects)
	server := all["rdma-server"].Labels
	for _, from := range []labels.Set{all["rdma-client"].Labels, {"app": "stranger"}} {
		for _, port := range all["rdma-server"].Spec.Containers[0].Ports {
			if admitted(t, objects, from, server, corev1.ProtocolTCP, port.ContainerPort) {
				t.Errorf("%v reaches the server's port %s over the pods' network", from, port.Name)
			}
		}
	}
}

// admitted reports whether a pod of the same namespace may send to a port of another.
func admitted(t *testing.T, objects []runtime.Object, from, to labels.Set, protocol corev1.Protocol, port int32) bool {
	t.Helper()
	matches := func(s *metav1.LabelSelector, pod labels.Set) bool {
		selector, err := metav1.LabelSelectorAsSelector(s)
		if err != nil {
			t.Fatal(err)
		}
		return selector.Matches(pod)
	}
	open := true // without a policy that selects it, a pod takes everything
	for _, object := range objects {
		policy, is := object.(*networkingv1.NetworkPolicy)
		if !is || !matches(&policy.Spec.PodSelector, to) || !slices.Contains(policy.Spec.PolicyTypes, networkingv1.PolicyTypeIngress) {
			continue
		}
		open = false
		for _, rule := range policy.Spec.Ingress {
			peer := len(rule.From) == 0 || slices.ContainsFunc(rule.From, func(p networkingv1.NetworkPolicyPeer) bool {
				return p.NamespaceSelector == nil && p.IPBlock == nil && matches(p.PodSelector, from)
			})
			to := len(rule.Ports) == 0 || slices.ContainsFunc(rule.Ports, func(p networkingv1.NetworkPolicyPort) bool {
				return (p.Protocol == nil && protocol == corev1.ProtocolTCP || p.Protocol != nil && *p.Protocol == protocol) && p.Port.IntVal == port
			})
			if peer && to {
				return true
			}
		}
	}
	return open
}
