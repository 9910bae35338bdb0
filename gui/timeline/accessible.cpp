#include "gui/timeline/accessible.hpp"

#include "gui/timeline/timeline.hpp"

#include <QAccessible>
#include <QAccessibleWidget>

#include <vector>

namespace orrery {

namespace {

class RowAccessible : public QAccessibleInterface {
  public:
    RowAccessible(Timeline* timeline, int row) : timeline_(timeline), row_(row) {}
    bool isValid() const override { return row_ < static_cast<int>(timeline_->rows().size()); }
    QObject* object() const override { return nullptr; }
    QAccessibleInterface* parent() const override { return QAccessible::queryAccessibleInterface(timeline_); }
    QAccessibleInterface* child(int) const override { return nullptr; }
    QAccessibleInterface* childAt(int, int) const override { return nullptr; }
    int childCount() const override { return 0; }
    int indexOfChild(const QAccessibleInterface*) const override { return -1; }
    QAccessible::Role role() const override { return QAccessible::ListItem; }
    QString text(QAccessible::Text t) const override { return t == QAccessible::Name && isValid() ? timeline_->rowText(row_) : QString(); }
    void setText(QAccessible::Text, const QString&) override {}
    QRect rect() const override {
        const QRect r = timeline_->rowRect(row_);
        return {timeline_->viewport()->mapToGlobal(r.topLeft()), r.size()};
    }
    QAccessible::State state() const override {
        QAccessible::State s;
        if (!isValid()) return s;
        const Row& row = timeline_->rows()[row_];
        s.selectable = s.focusable = true;
        s.selected = s.focused = timeline_->currentRow() == row_;
        s.expandable = row.expandable;
        s.expanded = row.expanded;
        s.collapsed = row.expandable && !row.expanded;
        return s;
    }

  private:
    Timeline* timeline_;
    int row_;
};

class TimelineAccessible : public QAccessibleWidget {
  public:
    explicit TimelineAccessible(Timeline* t) : QAccessibleWidget(t, QAccessible::List), timeline_(t) {}
    ~TimelineAccessible() override {
        for (QAccessible::Id id : rows_) QAccessible::deleteAccessibleInterface(id);
    }
    int childCount() const override { return static_cast<int>(timeline_->rows().size()); }
    QAccessibleInterface* child(int index) const override {
        if (index < 0 || index >= childCount()) return nullptr;
        while (static_cast<int>(rows_.size()) <= index)
            rows_.push_back(QAccessible::registerAccessibleInterface(new RowAccessible(timeline_, static_cast<int>(rows_.size()))));
        return QAccessible::accessibleInterface(rows_[index]);
    }
    int indexOfChild(const QAccessibleInterface* child) const override {
        for (std::size_t i = 0; i < rows_.size(); ++i)
            if (QAccessible::accessibleInterface(rows_[i]) == child) return static_cast<int>(i);
        return -1;
    }
    QAccessibleInterface* focusChild() const override { return timeline_->hasFocus() ? child(timeline_->currentRow()) : nullptr; }
    QString text(QAccessible::Text t) const override {
        if (t != QAccessible::Value || !timeline_->store()) return QAccessibleWidget::text(t);
        const SpanRef s = timeline_->selected();
        QString words;
        if (s.valid())
            for (const auto& [name, value] : facts(*timeline_->data(), s)) words += name + ": " + value + "; ";
        return words;
    }

  private:
    Timeline* timeline_;
    mutable std::vector<QAccessible::Id> rows_;
};

QAccessibleInterface* make(const QString&, QObject* object) {
    auto* t = qobject_cast<Timeline*>(object);
    return t ? new TimelineAccessible(t) : nullptr;
}

} // namespace

void make_timelines_accessible() { QAccessible::installFactory(make); }

} // namespace orrery
