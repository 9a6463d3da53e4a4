// Cluster runs a Kubernetes in one process, for tests: etcd, and the released API server, Job
// controller and garbage collector. It replaces the scheduler and the nodes, see node.go.
//
//	cluster DIR    stores everything in DIR, writes DIR/kubeconfig when it is up, ends on TERM
//	kubectl ...    the released kubectl, if the program has that name
package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/component-base/cli"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/job"
)

func main() {
	if filepath.Base(os.Args[0]) == "kubectl" {
		if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
			util.CheckErr(err)
		}
		return
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

// token authenticates all clients.
const token = "of-tests"

func run(dir string) error {
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	storage, err := startEtcd(filepath.Join(dir, "etcd"), ports[0], ports[1])
	if err != nil {
		return err
	}
	defer storage.Close()
	server := app.NewAPIServerCommand()
	ctx := server.Context() // ends by TERM
	args, err := serverArgs(dir, storage.Config().ListenClientUrls[0].String(), ports[2])
	if err != nil {
		return err
	}
	server.SetArgs(args)
	ended := make(chan error, 1)
	go func() { ended <- server.Execute() }()

	config := &rest.Config{Host: fmt.Sprintf("https://127.0.0.1:%d", ports[2]), BearerToken: token, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, QPS: 500, Burst: 500}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	for client.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error() != nil {
		select {
		case err := <-ended:
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
	n := newNode(client, dir)
	if err := startControllers(ctx, config, client, n); err != nil {
		return err
	}
	text := fmt.Sprintf(kubeconfig, config.Host, token)
	if err := os.WriteFile(filepath.Join(dir, "kubeconfig.part"), []byte(text), 0o600); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(dir, "kubeconfig.part"), filepath.Join(dir, "kubeconfig")); err != nil {
		return err
	}
	err = <-ended
	n.running.Wait()
	return err
}

const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: tests, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: tests, user: {token: %s}}]
contexts: [{name: tests, context: {cluster: tests, user: tests}}]
current-context: tests
`

func freePorts(n int) (ports []int, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

func startEtcd(dir string, clients, peers int) (*embed.Etcd, error) {
	c := embed.NewConfig()
	at := func(port int) []url.URL { return []url.URL{{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", port)}} }
	c.ListenClientUrls, c.AdvertiseClientUrls = at(clients), at(clients)
	c.ListenPeerUrls, c.AdvertisePeerUrls = at(peers), at(peers)
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.Dir, c.UnsafeNoFsync, c.LogLevel = dir, true, "error"
	storage, err := embed.StartEtcd(c)
	if err != nil {
		return nil, fmt.Errorf("starting etcd: %w", err)
	}
	<-storage.Server.ReadyNotify()
	return storage, nil
}

// serverArgs returns the flags of the API server, and creates the files that they name.
func serverArgs(dir, storage string, port int) ([]string, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	keyFile, tokens := filepath.Join(dir, "accounts.pem"), filepath.Join(dir, "tokens.csv")
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	if err := os.WriteFile(keyFile, text, 0o600); err != nil {
		return nil, err
	}
	if err := os.WriteFile(tokens, []byte(token+",tests,1,system:masters\n"), 0o600); err != nil {
		return nil, err
	}
	return []string{
		"--etcd-servers=" + storage,
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port), "--cert-dir=" + filepath.Join(dir, "certs"),
		"--token-auth-file=" + tokens,
		"--service-account-issuer=https://tests", "--service-account-key-file=" + keyFile, "--service-account-signing-key-file=" + keyFile,
		"--disable-admission-plugins=ServiceAccount", // there is no controller that makes accounts
	}, nil
}

// startControllers starts the controllers of Jobs and pods, including the node.
func startControllers(ctx context.Context, config *rest.Config, client kubernetes.Interface, n *node) error {
	shared := informers.NewSharedInformerFactory(client, 0)
	jobs, err := job.NewController(ctx, shared.Core().V1().Pods(), shared.Batch().V1().Jobs(), client)
	if err != nil {
		return err
	}
	if err := n.watch(ctx, shared.Core().V1().Pods().Informer()); err != nil {
		return err
	}
	known := memory.NewMemCacheClient(client.Discovery())
	objects, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	started := make(chan struct{})
	garbage, err := garbagecollector.NewGarbageCollector(ctx, client, objects, restmapper.NewDeferredDiscoveryRESTMapper(known),
		garbagecollector.DefaultIgnoredResources(), informerfactory.NewInformerFactory(shared, metadatainformer.NewSharedInformerFactory(objects, 0)), started)
	if err != nil {
		return err
	}
	shared.Start(ctx.Done())
	close(started)
	shared.WaitForCacheSync(ctx.Done())
	go jobs.Run(ctx, 2)
	go garbage.Run(ctx, 2, time.Minute)
	go garbage.Sync(ctx, client.Discovery(), time.Minute)
	return nil
}
