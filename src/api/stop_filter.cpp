#include "api/stop_filter.h"

#include <algorithm>

namespace roost::api {

StopFilter::StopFilter(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase_if(stops_, [](const std::string& s) { return s.empty(); });
}

std::string StopFilter::feed(std::string_view text) {
  if (stops_.empty()) return std::string(text);
  std::string out;
  for (const char c : text) {
    if (stopped_) break;
    take(c, out);
  }
  return out;
}

std::string StopFilter::flush() {
  std::string rest;
  if (!stopped_) rest.swap(held_);
  return rest;
}

void StopFilter::take(char c, std::string& out) {
  held_.push_back(c);
  const std::string* found = nullptr;
  for (const std::string& stop : stops_) {
    if (held_.ends_with(stop) && (found == nullptr || stop.size() > found->size())) found = &stop;
  }
  if (found != nullptr) {
    stopped_ = true;
    matched_ = *found;
    out.append(held_, 0, held_.size() - found->size());
    held_.clear();
    return;
  }
  // Let go of what can no longer begin a stop string.
  std::size_t from = 0;
  const auto may_grow = [&](std::string_view suffix) {
    return std::ranges::any_of(stops_,
                               [&](const std::string& s) { return s.size() > suffix.size() && s.starts_with(suffix); });
  };
  while (from < held_.size() && !may_grow(std::string_view(held_).substr(from))) ++from;
  out.append(held_, 0, from);
  held_.erase(0, from);
}

}  // namespace roost::api
