#include "store/digest.h"

#include <openssl/evp.h>

#include <array>

#include "core/check.h"

namespace roost::store {
namespace {

std::string hex_digest(const EVP_MD* algorithm, std::string_view data) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::array<unsigned char, EVP_MAX_MD_SIZE> raw{};
  unsigned int size = 0;
  ROOST_CHECK(EVP_Digest(data.data(), data.size(), raw.data(), &size, algorithm, nullptr) == 1);
  std::string out;
  out.reserve(std::size_t{size} * 2);
  for (unsigned int i = 0; i < size; ++i) {
    out.push_back(kDigits[raw[i] >> 4U]);
    out.push_back(kDigits[raw[i] & 15U]);
  }
  return out;
}

}  // namespace

std::string sha1_hex(std::string_view data) { return hex_digest(EVP_sha1(), data); }
std::string sha256_hex(std::string_view data) { return hex_digest(EVP_sha256(), data); }

}  // namespace roost::store
