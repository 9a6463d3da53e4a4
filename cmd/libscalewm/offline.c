//go:build wheel

#define _GNU_SOURCE
// What Debian's libhdf5 wants of libcurl and OpenSSL to read from Amazon S3. We never ask
// for that, and so these, which refuse, travel in the wheel and those do not.
#include <dlfcn.h>
#include <stddef.h>

#pragma GCC visibility push(hidden)

// Debian's archive is compiled for programs, where the C library's streams are at a fixed
// distance; inside a shared library they are not, and so it gets pointers of our own to them.
void* own_stderr __asm__("stderr");
void* own_stdout __asm__("stdout");
__attribute__((constructor(101))) static void find_streams(void) {
  own_stderr = *(void**)dlsym(RTLD_DEFAULT, "stderr");
  own_stdout = *(void**)dlsym(RTLD_DEFAULT, "stdout");
}

void* curl_easy_init(void) { return NULL; }
void curl_easy_cleanup(void* handle) { (void)handle; }
int curl_easy_perform(void* handle) { (void)handle; return 2; }  // CURLE_FAILED_INIT
int curl_easy_setopt(void* handle, int option, ...) { (void)handle; (void)option; return 2; }
int curl_easy_getinfo(void* handle, int info, ...) { (void)handle; (void)info; return 2; }
int curl_global_init(long flags) { (void)flags; return 2; }
void curl_global_cleanup(void) {}
void* curl_slist_append(void* list, const char* text) { (void)list; (void)text; return NULL; }
void curl_slist_free_all(void* list) { (void)list; }
const void* EVP_sha256(void) { return NULL; }
unsigned char* HMAC(const void* md, const void* key, int key_len, const unsigned char* d, size_t n, unsigned char* out, unsigned* len) {
  (void)md, (void)key, (void)key_len, (void)d, (void)n, (void)out, (void)len;
  return NULL;
}
unsigned char* SHA256(const unsigned char* d, size_t n, unsigned char* out) {
  (void)d, (void)n, (void)out;
  return NULL;
}
