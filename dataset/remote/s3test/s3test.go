// Package s3test is a small in-memory S3 server for tests. It supports what package
// remote uses: conditional puts, range reads, paged listings and multipart uploads.
// Tests can make it fail in various ways: see the fields of [Server].
//
// It checks content checksums and the access key, but not signatures.
package s3test

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Bucket is the server's only bucket and Key the access key it accepts.
const (
	Bucket = "runs"
	Key    = "test"
)

// page is the number of names on one page of a listing. It is small, so that tests
// need few objects to get several pages.
const page = 3

// Server is an S3 server in memory.
type Server struct {
	// Fail, if set, returns the status and error code with which to answer a request,
	// or 0 to process it normally.
	Fail func(r *http.Request) (status int, code string)
	// Cut, if set, returns the number of bytes after which the answer to a GET breaks
	// off, or 0 for a complete answer.
	Cut func(r *http.Request) int
	// Careless makes the server ignore the condition of a put, as old servers do.
	Careless bool

	mu      sync.Mutex
	objects map[string]object
	uploads map[string]upload
	// counts has the number of requests by method.
	counts map[string]int // of requests by method
	*httptest.Server
}

// object is a stored object. A multipart upload has an ETag that is not the MD5 of
// its bytes.
type object struct {
	bytes []byte
	etag  string
	// sum is the header x-amz-meta-sha256, the checksum that clients record.
	sum string // x-amz-meta-sha256
}

// upload is a multipart upload in progress, with its parts by number.
type upload struct {
	key, sum string
	parts    map[int][]byte
}

// Start starts a server for the duration of a test and sets the environment variables
// by which clients find it.
func Start(t testing.TB) *Server {
	s := &Server{objects: map[string]object{}, uploads: map[string]upload{}, counts: map[string]int{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	for name, value := range map[string]string{"AWS_ENDPOINT_URL": s.URL, "AWS_ENDPOINT_URL_S3": "", "AWS_ACCESS_KEY_ID": Key, "AWS_SECRET_ACCESS_KEY": "a secret of this test",
		"AWS_SESSION_TOKEN": "", "AWS_REGION": "us-east-1", "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent", "AWS_CONFIG_FILE": "/nonexistent", "AWS_PROFILE": ""} {
		t.Setenv(name, value)
	}
	return s
}

// Objects returns the content of all objects by key.
func (s *Server) Objects() map[string][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string][]byte{}
	for key, o := range s.objects {
		all[key] = o.bytes
	}
	return all
}

// Uploads returns the number of incomplete multipart uploads.
func (s *Server) Uploads() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.uploads)
}

// Requests returns the number of requests with a method so far.
func (s *Server) Requests(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[method]
}

// Change replaces an object's bytes but keeps its recorded checksum, as damage in the
// store would.
func (s *Server) Change(key string, bytes []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[key] = object{bytes, etagOf(bytes), s.objects[key].sum}
}

// Replace puts an object as another machine would, with the right checksum.
func (s *Server) Replace(key string, bytes []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := sha256.Sum256(bytes)
	s.objects[key] = object{bytes, etagOf(bytes), hex.EncodeToString(sum[:])}
}

// etagOf returns the ETag of an object that was put in one request.
func etagOf(b []byte) string { sum := md5.Sum(b); return hex.EncodeToString(sum[:]) }

// ServeHTTP checks the request as a server would before it looks at the object.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	s.mu.Lock()
	s.counts[r.Method]++
	s.mu.Unlock()
	sum := sha256.Sum256(body)
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if s.Fail != nil {
		if status, code := s.Fail(r); status != 0 {
			refuse(w, status, code)
			return
		}
	}
	switch {
	case err != nil:
	case !strings.Contains(r.Header.Get("Authorization"), "Credential="+Key+"/"):
		refuse(w, http.StatusForbidden, "InvalidAccessKeyId")
	case bucket != Bucket:
		refuse(w, http.StatusNotFound, "NoSuchBucket")
	// The client signs the hash of the content, so damage on the way is detected.
	case len(body) > 0 && r.Header.Get("X-Amz-Content-Sha256") != hex.EncodeToString(sum[:]):
		refuse(w, http.StatusBadRequest, "XAmzContentSHA256Mismatch")
	default:
		s.serve(w, r, key, body)
	}
}

// refuse answers with a status and S3's XML form of an error code.
func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>from the test server: %s</Message></Error>", code, code)
}

// serve dispatches a valid request to the operation that its method and query
// parameters name.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, key string, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := r.URL.Query()
	switch {
	case r.Method == http.MethodGet && key == "" && q.Has("uploads"):
		s.listUploads(w, q.Get("prefix"))
	case r.Method == http.MethodGet && key == "":
		s.list(w, q.Get("prefix"), q.Get("continuation-token"))
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		s.get(w, r, key)
	case r.Method == http.MethodPost && q.Has("uploads"):
		// Any unique text can identify an upload.
		id := strconv.Itoa(s.counts[http.MethodPost])
		s.uploads[id] = upload{key, r.Header.Get("X-Amz-Meta-Sha256"), map[int][]byte{}}
		answer(w, "InitiateMultipartUploadResult", fmt.Sprintf("<Bucket>%s</Bucket><Key>%s</Key><UploadId>%s</UploadId>", Bucket, key, id))
	case q.Has("uploadId"):
		s.part(w, r, q.Get("uploadId"), q.Get("partNumber"), body)
	case r.Method == http.MethodPut:
		s.put(w, r, key, object{body, etagOf(body), r.Header.Get("X-Amz-Meta-Sha256")})
	case r.Method == http.MethodDelete:
		delete(s.objects, key)
		w.WriteHeader(http.StatusNoContent)
	default:
		refuse(w, http.StatusMethodNotAllowed, "MethodNotAllowed")
	}
}

// answer writes an XML document with one root element.
func answer(w http.ResponseWriter, name, inner string) {
	w.Header().Set("Content-Type", "application/xml")
	fmt.Fprintf(w, "<%s>%s</%s>", name, inner, name)
}

// put stores an object unless its condition fails, and reports whether it did.
func (s *Server) put(w http.ResponseWriter, r *http.Request, key string, o object) bool {
	if _, there := s.objects[key]; there && r.Header.Get("If-None-Match") == "*" && !s.Careless {
		refuse(w, http.StatusPreconditionFailed, "PreconditionFailed")
		return false
	}
	s.objects[key] = o
	w.Header().Set("ETag", `"`+o.etag+`"`)
	return true
}

// get serves GET and HEAD, with a range that has no end and the condition If-Match.
func (s *Server) get(w http.ResponseWriter, r *http.Request, key string) {
	o, ok := s.objects[key]
	if !ok {
		refuse(w, http.StatusNotFound, "NoSuchKey")
		return
	}
	if match := r.Header.Get("If-Match"); match != "" && strings.Trim(match, `"`) != o.etag {
		refuse(w, http.StatusPreconditionFailed, "PreconditionFailed")
		return
	}
	from, status := 0, http.StatusOK
	if text, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes="); ok {
		from, _ = strconv.Atoi(strings.TrimSuffix(text, "-"))
		// Only ranges without an end occur: bytes=FROM-.
		status = http.StatusPartialContent
	}
	w.Header().Set("ETag", `"`+o.etag+`"`)
	w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
	w.Header().Set("Content-Length", strconv.Itoa(len(o.bytes)-from))
	if o.sum != "" {
		w.Header().Set("X-Amz-Meta-Sha256", o.sum)
	}
	w.WriteHeader(status)
	rest := o.bytes[from:]
	if s.Cut != nil && r.Method == http.MethodGet {
		if n := s.Cut(r); n > 0 && n < len(rest) {
			w.Write(rest[:n])
			w.(http.Flusher).Flush()
			// This panic makes net/http close the connection without completing the
			// answer.
			panic(http.ErrAbortHandler)
		}
	}
	if r.Method == http.MethodGet {
		w.Write(rest)
	}
}

// list serves one page of a listing. The continuation token is the last key of the
// previous page.
func (s *Server) list(w http.ResponseWriter, prefix, after string) {
	var inner strings.Builder
	n, last, more := 0, "", false
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		if !strings.HasPrefix(key, prefix) || key <= after {
			continue
		}
		if n == page {
			more = true
			break
		}
		n, last = n+1, key
		fmt.Fprintf(&inner, "<Contents><Key>%s</Key><Size>%d</Size><ETag>&quot;%s&quot;</ETag><LastModified>2006-01-02T15:04:05Z</LastModified></Contents>", escaped(key), len(s.objects[key].bytes), s.objects[key].etag)
	}
	answer(w, "ListBucketResult", fmt.Sprintf("<IsTruncated>%t</IsTruncated><NextContinuationToken>%s</NextContinuationToken>%s", more, escaped(last), inner.String()))
}

func escaped(text string) string {
	var b strings.Builder
	xml.EscapeText(&b, []byte(text))
	return b.String()
}

// listUploads serves the incomplete uploads, on one page.
func (s *Server) listUploads(w http.ResponseWriter, prefix string) {
	var inner strings.Builder
	for id, u := range s.uploads {
		if strings.HasPrefix(u.key, prefix) {
			fmt.Fprintf(&inner, "<Upload><Key>%s</Key><UploadId>%s</UploadId><Initiated>2006-01-02T15:04:05Z</Initiated></Upload>", escaped(u.key), id)
		}
	}
	answer(w, "ListMultipartUploadsResult", "<IsTruncated>false</IsTruncated>"+inner.String())
}

// part serves the requests of a multipart upload: a part, its completion, its
// abortion.
func (s *Server) part(w http.ResponseWriter, r *http.Request, id, number string, body []byte) {
	u, ok := s.uploads[id]
	if !ok {
		refuse(w, http.StatusNotFound, "NoSuchUpload")
		return
	}
	switch r.Method {
	case http.MethodPut:
		n, _ := strconv.Atoi(number)
		u.parts[n] = body
		w.Header().Set("ETag", `"`+etagOf(body)+`"`)
	case http.MethodDelete:
		delete(s.uploads, id)
		w.WriteHeader(http.StatusNoContent)
	case http.MethodPost:
		var all []byte
		// Parts may arrive in any order and are joined by number.
		for _, n := range slices.Sorted(maps.Keys(u.parts)) {
			all = append(all, u.parts[n]...)
		}
		o := object{all, etagOf(all) + "-" + strconv.Itoa(len(u.parts)), u.sum}
		if s.put(w, r, u.key, o) {
			delete(s.uploads, id)
			answer(w, "CompleteMultipartUploadResult", fmt.Sprintf("<Bucket>%s</Bucket><Key>%s</Key><ETag>&quot;%s&quot;</ETag>", Bucket, escaped(u.key), o.etag))
		}
	}
}
