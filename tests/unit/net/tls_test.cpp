#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <filesystem>
#include <fstream>

#include "net/http_client.h"
#include "test_server.h"

namespace roost::net::testing {
namespace {

struct Identity {
  std::string certificate;  // PEM
  std::string key;
};

std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<std::size_t>(size));
  BIO_free(bio);
  return text;
}

// A certificate for "localhost" that signs itself.
Identity make_identity() {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = X509_new();
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
  X509_set_pubkey(certificate, key);
  X509_NAME* name = X509_get_subject_name(certificate);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
  X509_set_issuer_name(certificate, name);
  X509_EXTENSION* names = X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "DNS:localhost");
  X509_add_ext(certificate, names, -1);
  X509_EXTENSION_free(names);
  X509_sign(certificate, key, EVP_sha256());
  BIO* certificate_text = BIO_new(BIO_s_mem());
  PEM_write_bio_X509(certificate_text, certificate);
  BIO* key_text = BIO_new(BIO_s_mem());
  PEM_write_bio_PrivateKey(key_text, key, nullptr, nullptr, 0, nullptr, nullptr);
  X509_free(certificate);
  EVP_PKEY_free(key);
  return {text_of(certificate_text), text_of(key_text)};
}

// Answers each connection's requests with "secret" until the client leaves.
class TlsTest : public ::testing::Test {
 protected:
  TlsTest() {
    const Identity identity = make_identity();
    std::ofstream(ca_file) << identity.certificate;
    tls.use_certificate_chain(asio::buffer(identity.certificate));
    tls.use_private_key(asio::buffer(identity.key), asio::ssl::context::pem);
    asio::co_spawn(server_loop.context, accept_loop(), asio::detached);
  }
  ~TlsTest() override { std::filesystem::remove(ca_file); }

  awaitable<void> accept_loop() {
    while (true) {
      tcp::socket socket = co_await acceptor.async_accept(asio::use_awaitable);
      asio::co_spawn(server_loop.context, serve(std::move(socket)), asio::detached);
    }
  }

  awaitable<void> serve(tcp::socket socket) {
    asio::ssl::stream<tcp::socket> stream(std::move(socket), tls);
    boost::system::error_code ec;
    co_await stream.async_handshake(asio::ssl::stream_base::server, asio::redirect_error(asio::use_awaitable, ec));
    const std::string answer = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret";
    char request[4096];
    while (!ec) {
      co_await stream.async_read_some(asio::buffer(request), asio::redirect_error(asio::use_awaitable, ec));
      if (!ec) ++requests;
      if (!ec) co_await asio::async_write(stream, asio::buffer(answer), asio::redirect_error(asio::use_awaitable, ec));
    }
  }

  Result<Response> fetch(const std::string& host, const std::string& ca, int times = 1) {
    ClientOptions options;
    options.ca_file = ca;
    const Url url = *parse_url("https://" + host + ":" + std::to_string(acceptor.local_endpoint().port()));
    HttpClient client(loop.context.get_executor(), url, options);
    Result<Response> response = loop.run(client.fetch({"GET", "/"}));
    for (int i = 1; i < times; ++i) response = loop.run(client.fetch({"GET", "/"}));
    connections = client.connections();
    return response;
  }

  const std::string ca_file =
      (std::filesystem::temp_directory_path() / ("roost-tls-test-" + std::to_string(::getpid()) + ".pem")).string();
  std::atomic<int> requests{0};
  std::size_t connections = 0;
  asio::ssl::context tls{asio::ssl::context::tls_server};
  Loop server_loop;
  tcp::acceptor acceptor{server_loop.context, tcp::endpoint(asio::ip::address_v4::loopback(), 0)};
  Loop loop;
};

TEST_F(TlsTest, FetchesFromAServerItTrustsAndKeepsTheConnection) {
  const auto response = fetch("localhost", ca_file, 3);
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->body, "secret");
  EXPECT_EQ(connections, 1u);
  EXPECT_EQ(requests, 3);
}

TEST_F(TlsTest, SendsNothingToAServerItDoesNotTrust) {
  const auto response = fetch("localhost", "");
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().kind, ErrorKind::unavailable);
  EXPECT_NE(response.error().message.find("TLS handshake"), std::string::npos) << response.error().message;
  EXPECT_EQ(requests, 0);
}

TEST_F(TlsTest, SendsNothingToAServerOfAnotherName) {
  const auto response = fetch("127.0.0.1", ca_file);
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().kind, ErrorKind::unavailable);
  EXPECT_EQ(requests, 0);
}

}  // namespace
}  // namespace roost::net::testing
