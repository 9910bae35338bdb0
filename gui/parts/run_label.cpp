#include "gui/parts/run_label.hpp"

#include <QPainter>

#include <algorithm>

namespace orrery {

namespace {
constexpr int narrowest = 40;
}

RunLabel::RunLabel(RunStore& runs, ViewState& state, QWidget* parent) : QLabel(parent), runs_(runs), state_(state) {
    setTextFormat(Qt::PlainText);
    QFont bold = font();
    bold.setBold(true);
    setFont(bold);
    setAccessibleName(tr("Run that is shown"));
    connect(&state_, &ViewState::currentRunChanged, this, &RunLabel::follow);
    connect(&runs_, &RunStore::runChanged, this, &RunLabel::follow);
    connect(&runs_, &RunStore::runAdded, this, &RunLabel::follow);
    connect(&runs_, &RunStore::runRemoved, this, &RunLabel::follow);
    follow();
}

void RunLabel::follow() {
    const Run* run = runs_.find(state_.currentRun());
    warns_ = run && run->out_of_date;
    setText(run ? (warns_ ? QStringLiteral("\u26a0 ") : QString{}) + shown_name(*run) : QString{});
    setToolTip(warns_ ? out_of_date_words() : run ? run->path : QString{});
    setAccessibleDescription(text());
    updateGeometry();
}

QSize RunLabel::sizeHint() const { return {fontMetrics().horizontalAdvance(text()) + 4, fontMetrics().height() + 2}; }
QSize RunLabel::minimumSizeHint() const { return {std::min(narrowest, sizeHint().width()), sizeHint().height()}; }

void RunLabel::paintEvent(QPaintEvent*) {
    QPainter p(this);
    p.setPen(palette().color(isEnabled() ? QPalette::Active : QPalette::Disabled, QPalette::WindowText));
    p.drawText(rect(), Qt::AlignVCenter | Qt::AlignLeft | Qt::TextSingleLine, fontMetrics().elidedText(text(), Qt::ElideMiddle, width()));
}

} // namespace orrery
