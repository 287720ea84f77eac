// Package kubernetes tests the manifests of this directory: that Kubernetes' own types take every
// field, that their names fit together, and that the programs take their arguments.
package kubernetes

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// load decodes a file strictly: an unknown or repeated field is an error.
func load(t *testing.T, file string) (objects []runtime.Object) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{appsv1.AddToScheme, batchv1.AddToScheme, corev1.AddToScheme, networkingv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	strict := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	documents := yaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(text)))
	buffer := make([]byte, 1<<20)
	for {
		n, err := documents.Read(buffer)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		object, _, err := strict.Decode(buffer[:n], nil, nil)
		if err != nil {
			t.Fatalf("%s, document %d: %v", file, len(objects)+1, err)
		}
		objects = append(objects, object)
	}
}

// pods returns the templates of pods in a file, by the name of their object.
func pods(t *testing.T, objects []runtime.Object) map[string]corev1.PodTemplateSpec {
	t.Helper()
	all := map[string]corev1.PodTemplateSpec{}
	for _, object := range objects {
		switch o := object.(type) {
		case *appsv1.Deployment:
			all[o.Name] = o.Spec.Template
			if selector, err := metav1.LabelSelectorAsSelector(o.Spec.Selector); err != nil || !selector.Matches(labels.Set(o.Spec.Template.Labels)) {
				t.Errorf("the Deployment %s does not select its own pods: %v", o.Name, err)
			}
		case *batchv1.Job:
			all[o.Name] = o.Spec.Template
		}
	}
	return all
}

func TestManifests(t *testing.T) {
	programs := build(t)
	files, err := filepath.Glob("*.yaml")
	if err != nil || len(files) != 3 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			objects := load(t, file)
			templates := pods(t, objects)
			if len(templates) != 2 {
				t.Errorf("%d templates of pods, want a server and a client", len(templates))
			}
			for name, pod := range templates {
				checkPod(t, file, name, pod.Spec)
				checkArguments(t, programs, name, pod.Spec.Containers[0])
			}
			for _, object := range objects {
				if s, is := object.(*corev1.Service); is {
					checkService(t, s, templates)
				}
			}
		})
	}
}

// checkPod checks what every pod must have: few rights, limits, and RDMA's only with an RDMA device.
func checkPod(t *testing.T, file, name string, pod corev1.PodSpec) {
	t.Helper()
	hardware := file == "rdma.yaml"
	c := pod.Containers[0]
	for what, right := range map[string]bool{
		"no service account's token": pod.AutomountServiceAccountToken != nil && !*pod.AutomountServiceAccountToken,
		"seccomp":                    pod.SecurityContext.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault,
		"no escalation":              !*c.SecurityContext.AllowPrivilegeEscalation,
		"a read-only root":           *c.SecurityContext.ReadOnlyRootFilesystem,
		"no default capability":      slices.Equal(c.SecurityContext.Capabilities.Drop, []corev1.Capability{"ALL"}),
		"IPC_LOCK with hardware":     slices.Equal(c.SecurityContext.Capabilities.Add, []corev1.Capability{"IPC_LOCK"}) == hardware,
		"not root without hardware":  (pod.SecurityContext.RunAsNonRoot != nil && *pod.SecurityContext.RunAsNonRoot) != hardware,
		"a limit of memory":          !c.Resources.Limits.Memory().IsZero(),
		"an RDMA device":             !c.Resources.Limits.Name("rdma/hca_shared_devices_a", "").IsZero() == hardware,
		"the image":                  c.Image == map[bool]string{true: "rawverbs:rdma", false: "rawverbs:soft"}[hardware],
	} {
		if !right {
			t.Errorf("%s: %s is wrong", name, what)
		}
	}
	for _, mount := range c.VolumeMounts {
		i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })
		if i < 0 || !mount.ReadOnly || pod.Volumes[i].Secret.SecretName != name+"-tls" {
			t.Errorf("%s: the volume %s is missing, writable, or of another Secret", name, mount.Name)
		}
		if !slices.Contains(c.Args, mount.MountPath) {
			t.Errorf("%s: no argument names %s", name, mount.MountPath)
		}
	}
	if p := c.ReadinessProbe; p != nil {
		grace, err := time.ParseDuration(argument(t, c, "--grace"))
		if err != nil || int64(grace.Seconds())+20 > *pod.TerminationGracePeriodSeconds {
			t.Errorf("%s: --grace %v leaves too little of %d s: %v", name, grace, *pod.TerminationGracePeriodSeconds, err)
		}
		i := slices.IndexFunc(c.Ports, func(port corev1.ContainerPort) bool { return port.Name == p.HTTPGet.Port.StrVal })
		if i < 0 || fmt.Sprintf(":%d", c.Ports[i].ContainerPort) != argument(t, c, "--metrics") || p.HTTPGet.Path != "/healthz" {
			t.Errorf("%s: the probe asks elsewhere than --metrics", name)
		}
	}
}

// checkService checks that a Service is headless, selects one kind of pod, and has its ports.
func checkService(t *testing.T, s *corev1.Service, templates map[string]corev1.PodTemplateSpec) {
	t.Helper()
	if s.Spec.ClusterIP != corev1.ClusterIPNone {
		t.Errorf("the Service %s is not headless", s.Name)
	}
	selected := 0
	for name, pod := range templates {
		if labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(pod.Labels)) {
			selected++
			for _, port := range s.Spec.Ports {
				if !slices.ContainsFunc(pod.Spec.Containers[0].Ports, func(c corev1.ContainerPort) bool {
					return c.Name == port.Name && c.ContainerPort == port.Port && (c.Protocol == port.Protocol)
				}) {
					t.Errorf("%s has no port %s %d of its Service", name, port.Name, port.Port)
				}
			}
		} else if !slices.Contains(pod.Spec.Containers[0].Args, s.Name) {
			t.Errorf("%s does not connect to the Service %s", name, s.Name)
		}
	}
	if selected != 1 {
		t.Errorf("the Service %s selects %d kinds of pods", s.Name, selected)
	}
}

// argument returns the value of a flag among a container's arguments.
func argument(t *testing.T, c corev1.Container, flag string) string {
	t.Helper()
	i := slices.Index(c.Args, flag)
	if i < 0 || i+1 == len(c.Args) {
		t.Fatalf("%s has no %s", c.Name, flag)
	}
	return c.Args[i+1]
}

// build builds the programs of the images and returns their directory.
func build(t *testing.T) string {
	t.Helper()
	dir := t.TempDir() + "/"
	cmd := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", dir, "./cmd/rdma_server", "./cmd/rdma_client", "./examples/param-server")
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

// checkArguments runs the program with the arguments and --help behind the flags. It fails for an
// unknown flag or a wrong value.
func checkArguments(t *testing.T, programs, name string, c corev1.Container) {
	t.Helper()
	args := slices.Clone(c.Args)
	if strings.HasSuffix(c.Command[0], "param-server") {
		args = slices.Insert(args, len(args)-1, "--help") // the package flag stops at the first other argument
		if args[0] == "server" {
			args = append(c.Args, "--help")
		}
	} else {
		args = append(args, "--help")
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(programs, c.Command[0]), args...)
	if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("Usage:")) {
		t.Errorf("%s: %s %q: %v\n%s", name, c.Command[0], args, err, out)
	}
}

// TestWorkers checks that the param-server waits for as many workers as the Indexed Job has, and that
// all of them run at once.
func TestWorkers(t *testing.T) {
	workers := 0
	for _, object := range load(t, "param-server.yaml") {
		job, is := object.(*batchv1.Job)
		switch {
		case is && job.Name == "param-server":
			n, err := strconv.Atoi(argument(t, job.Spec.Template.Spec.Containers[0], "--workers"))
			if err != nil {
				t.Fatal(err)
			}
			workers += n
		case is:
			if *job.Spec.CompletionMode != batchv1.IndexedCompletion || *job.Spec.Parallelism != *job.Spec.Completions || job.Spec.BackoffLimitPerIndex == nil {
				t.Errorf("the Job %s is not indexed, or does not run its pods at once", job.Name)
			}
			workers -= int(*job.Spec.Completions)
		}
	}
	if workers != 0 {
		t.Errorf("the server waits for %d workers more than there are", workers)
	}
}

// TestStrict checks that the decoding is strict.
func TestStrict(t *testing.T) {
	good, err := os.ReadFile("soft.yaml")
	if err != nil {
		t.Fatal(err)
	}
	bad := bytes.Replace(good, []byte("terminationGracePeriodSeconds"), []byte("terminationGraceSeconds"), 1)
	scheme := runtime.NewScheme()
	if err := appsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	document := bytes.Split(bad, []byte("\n---\n"))[1]
	_, _, err = json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true}).Decode(document, nil, nil)
	if err == nil || !strings.Contains(err.Error(), "terminationGraceSeconds") {
		t.Errorf("a misspelt field: %v", err)
	}
}
