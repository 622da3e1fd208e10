#include "cli/demo_view.h"

#include <fmt/format.h>

#include <cstdio>

namespace roost::cli {
namespace {

// At most `width` characters of the first line; cuts between UTF-8 characters.
std::string one_line(std::string_view text, std::size_t width) {
  std::string out;
  std::size_t characters = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool starts_character = (byte & 0xC0U) != 0x80U;
    if (starts_character && ++characters > width) return out + "...";
    out.push_back(byte < 0x20U ? ' ' : text[i]);
  }
  return out;
}

}  // namespace

std::string render_agent_line(const AgentReport& a) {
  std::string line =
      fmt::format("  {:10} {:8} {:4} tokens  {:6.1f} tok/s", a.role, to_string(a.phase), a.decoded, a.tps);
  if (!a.error.empty()) return line + "  " + one_line(a.error, 60);
  if (!a.tool.empty() && a.phase == AgentPhase::tool) return line + "  " + one_line(a.tool, 60);
  return line + "  " + one_line(a.text, 60);
}

void DemoView::update(const DemoReport& report) {
  if (terminal_) {
    if (lines_drawn_ > 0) fmt::print("\033[{}A", lines_drawn_);
    for (const AgentReport& a : report.agents) fmt::print("\033[2K{}\n", render_agent_line(a));
    lines_drawn_ = report.agents.size();
  } else {
    shown_.resize(report.agents.size(), AgentPhase::waiting);
    for (std::size_t i = 0; i < report.agents.size(); ++i) {
      if (shown_[i] == report.agents[i].phase) continue;
      shown_[i] = report.agents[i].phase;
      fmt::print("{}\n", render_agent_line(report.agents[i]));
    }
  }
  std::fflush(stdout);
}

void DemoView::finish() { lines_drawn_ = 0; }

std::string render_demo_table(const DemoReport& report) {
  std::string out = fmt::format("\n{:10} {:>8} {:>8} {:>10} {:>8} {:>8} {:>8}   {}\n", "agent", "prompt", "shared",
                                "prefilled", "answer", "tok/s", "wall s", "");
  for (const AgentReport& a : report.agents) {
    std::string remark = !a.error.empty() ? "failed: " + one_line(a.error, 50) : "";
    if (remark.empty() && !a.tool.empty()) {
      remark = fmt::format("{} -> {}", one_line(a.tool, 30), one_line(a.tool_output, 30));
    }
    out += fmt::format("{:10} {:8} {:8} {:10} {:8} {:8.1f} {:8.2f}   {}\n", a.role, a.prompt, a.shared, a.prefilled,
                       a.decoded, a.tps, a.wall_s, remark);
  }
  const auto total = report.prefilled();
  const auto alone = report.without_sharing();
  out += fmt::format("\npool {}: {} tokens, computed once and shared by {} agents\n", report.pool_id, report.pool_len,
                     report.agents.size());
  out += fmt::format("prefilled {} tokens in all; without sharing it would have been {} ({:.1f} x), wall {:.2f} s\n",
                     total, alone, total > 0 ? static_cast<double>(alone) / static_cast<double>(total) : 0.0,
                     report.wall_s);
  return out;
}

}  // namespace roost::cli
